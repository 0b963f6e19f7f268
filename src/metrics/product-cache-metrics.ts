import { Counter } from 'prom-client';
import type { CachedProductsOptions } from '../product-cache/cached-products.ts';
import type { MetricRegistry } from './metric-registry.ts';

export const measureProductCache = ({ register }: MetricRegistry): CachedProductsOptions['observer'] => {
  const requests = new Counter({
    name: 'millrace_product_cache_requests_total',
    help: 'Products asked for through the cache, by how they were come by',
    labelNames: ['outcome'],
    registers: [register],
  });
  return { answered: (outcome) => requests.inc({ outcome }) };
};
