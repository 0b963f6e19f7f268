/** Integer minor units of one currency; there is no other way to write an amount. */
export interface Money {
  readonly amountMinor: number;
  readonly currency: string;
}

/** Nothing beyond this can be written as JSON and as Avro without losing a unit. */
export const largestAmountMinor = Number.MAX_SAFE_INTEGER - 1;
