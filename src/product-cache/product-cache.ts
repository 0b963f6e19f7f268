/** Products as shoppers see them, kept where they are quick to get at. What is not there is read from the read models. */
export interface ProductCache {
  /** Forgets products; those that are not there do no harm. Fails when the cache does not answer. */
  forget(productIds: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

/** Under which key a product lies. */
export const cacheKeyOf = (prefix: string, productId: string): string =>
  `${prefix}millrace:product:${productId}`;
