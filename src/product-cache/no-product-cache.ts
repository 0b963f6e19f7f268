import type { ProductCache } from './product-cache.ts';

/** Without Redis nothing is shared between processes, so there is nothing to forget. */
export const noProductCache: ProductCache = {
  forget: async () => {},
  close: async () => {},
};
