import type { Product } from '../read-model/get-product.ts';

/** A product that has changed, and the version it has now. */
export interface ProductChange {
  readonly productId: string;
  readonly version: number;
}

export type Found =
  | { readonly kind: 'found'; readonly product: Product }
  /** It is to be read from the read model, by whoever got this lease and by nobody else meanwhile. */
  | { readonly kind: 'load'; readonly lease: string }
  /** Somebody else is reading it. */
  | { readonly kind: 'wait' };

/**
 * Products as shoppers see them, kept where they are quick to get at. Everything goes by the product's version: what is
 * older than what the cache has heard of is never kept, whoever brings it and however late. Every call fails when the
 * cache does not answer in time.
 */
export interface ProductCache {
  find(productId: string): Promise<Found>;
  /** Keeps what was read, unless something newer is known; gives the lease back in any case. */
  keep(product: Product, lease: string): Promise<void>;
  /** Gives the lease back where there was nothing to keep. */
  release(productId: string, lease: string): Promise<void>;
  /** Forgets products older than the change, and refuses to keep such ones from now on. */
  forget(changes: readonly ProductChange[]): Promise<void>;
  close(): Promise<void>;
}

export interface CacheTimes {
  /** How long a product is kept at most, whatever happens. */
  readonly ttlMs: number;
  /** How long others wait for who holds a lease: it may have died. */
  readonly leaseMs: number;
  /** How long a change is remembered: longer than reading a product from the read model can take. */
  readonly changesMs: number;
}
