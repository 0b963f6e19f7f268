import { setTimeout as pause } from 'node:timers/promises';
import type { Product } from '../read-model/get-product.ts';
import type { Queries } from '../read-model/queries.ts';
import type { Found, ProductCache } from './product-cache.ts';

/** How a product was come by: from the cache at once or after somebody else had read it; read; or read without a cache. */
export type CacheOutcome = 'hit' | 'waited' | 'read' | 'unavailable';

export interface CachedProductsOptions {
  readonly cache: ProductCache;
  readonly load: (productId: string) => Promise<Product | null>;
  /** How long to wait for who reads the product in another process. */
  readonly patienceMs: number;
  readonly observer: { answered(outcome: CacheOutcome): void };
}

const waitMs = 20;
/** What nobody gave out gives nothing back. */
const noLease = '';

/**
 * Products through the cache. However many ask for one that is not there, one of them reads it: in this process they share
 * a flight, and between processes a lease. A cache that does not answer makes it slower and changes nothing else.
 */
export const createCachedProducts = (options: CachedProductsOptions): Queries['getProduct'] => {
  const { cache, load, observer } = options;
  const waitsMax = Math.ceil(options.patienceMs / waitMs);
  const flights = new Map<string, Promise<Product | null>>();

  const ask = (productId: string): Promise<Found | undefined> => cache.find(productId).catch(() => undefined);

  const readAndKeep = async (productId: string, lease: string): Promise<Product | null> => {
    let product: Product | null = null;
    try {
      product = await load(productId);
      return product;
    } finally {
      const done = product ? cache.keep(product, lease) : cache.release(productId, lease);
      // A lease that is not given back runs out.
      await done.catch(() => {});
    }
  };

  const fly = async (productId: string): Promise<Product | null> => {
    for (let waits = 0; waits <= waitsMax; waits++) {
      const found = await ask(productId);
      if (!found) {
        observer.answered('unavailable');
        return load(productId);
      }
      if (found.kind === 'found') {
        observer.answered(waits === 0 ? 'hit' : 'waited');
        return found.product;
      }
      if (found.kind === 'load') {
        observer.answered('read');
        return readAndKeep(productId, found.lease);
      }
      await pause(waitMs);
    }
    observer.answered('read');
    return readAndKeep(productId, noLease);
  };

  return (productId, { afresh = false } = {}) => {
    // Whoever is in flight may have looked before what the caller has to see.
    if (afresh) return readAndKeep(productId, noLease);
    const underWay = flights.get(productId);
    if (underWay) return underWay;
    const flight = fly(productId).finally(() => flights.delete(productId));
    flights.set(productId, flight);
    return flight;
  };
};
