/** Batches in a row whose failing records no retry has mended: from then on such records are not tried again. */
const vainBatchesMax = 5;
/** Batches in a row without a failing record after which it is worth trying again. */
const calmBatchesMin = 20;

/**
 * Every retry makes all partitions of a projection wait. Where it helps it is worth that; where a faulty release fails
 * thousands of records, it is not.
 */
export class RetryBudget {
  readonly #retriesMax: number;
  #vainBatches = 0;
  #calmBatches = 0;

  constructor(retriesMax: number) {
    this.#retriesMax = retriesMax;
  }

  mayRetry(retriesDone: number): boolean {
    return retriesDone < this.#retriesMax && this.#vainBatches < vainBatchesMax;
  }

  /** How a batch ended: with records that fail, or without, perhaps thanks to a retry. */
  note({ failed, retries }: { readonly failed: number; readonly retries: number }): void {
    if (failed > 0) {
      this.#vainBatches++;
      this.#calmBatches = 0;
    } else if (retries > 0 || ++this.#calmBatches >= calmBatchesMin) this.#vainBatches = 0;
  }
}
