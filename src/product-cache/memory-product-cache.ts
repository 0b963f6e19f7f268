import { randomUUID } from 'node:crypto';
import type { Product } from '../read-model/get-product.ts';
import type { CacheTimes, ProductCache } from './product-cache.ts';

interface Entry {
  readonly version: number;
  /** Undefined where only the change is known. */
  readonly product: Product | undefined;
  readonly untilMs: number;
}

export interface MemoryProductCacheOptions extends CacheTimes {
  readonly entriesMax: number;
  readonly clock: () => number;
}

/** A cache for this process alone: it hears of a change only when the projection runs here, so it keeps things shortly. */
export const createMemoryProductCache = (options: MemoryProductCacheOptions): ProductCache => {
  const { ttlMs, leaseMs, changesMs, entriesMax, clock } = options;
  const entries = new Map<string, Entry>();
  const leases = new Map<string, { readonly lease: string; readonly untilMs: number }>();

  const current = <T extends { readonly untilMs: number }>(
    kept: Map<string, T>,
    id: string,
  ): T | undefined => {
    const found = kept.get(id);
    if (!found || clock() < found.untilMs) return found;
    kept.delete(id);
    return undefined;
  };
  const put = (id: string, entry: Entry): void => {
    entries.delete(id);
    const [oldest] = entries.size >= entriesMax ? entries.keys() : [];
    if (oldest !== undefined) entries.delete(oldest);
    entries.set(id, entry);
  };
  const giveBack = (id: string, lease: string): void => {
    if (leases.get(id)?.lease === lease) leases.delete(id);
  };

  return {
    find: async (productId) => {
      const product = current(entries, productId)?.product;
      if (product) return { kind: 'found', product };
      if (current(leases, productId)) return { kind: 'wait' };
      const lease = randomUUID();
      leases.set(productId, { lease, untilMs: clock() + leaseMs });
      return { kind: 'load', lease };
    },
    keep: async (product, lease) => {
      const { productId, version } = product;
      giveBack(productId, lease);
      const known = current(entries, productId);
      if (known && known.version > version) return;
      put(productId, { version, product, untilMs: clock() + ttlMs });
    },
    release: async (productId, lease) => giveBack(productId, lease),
    forget: async (changes) => {
      for (const { productId, version } of changes) {
        const known = current(entries, productId);
        if (known && known.version >= version) continue;
        put(productId, { version, product: undefined, untilMs: clock() + changesMs });
      }
    },
    close: async () => entries.clear(),
  };
};
