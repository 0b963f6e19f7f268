import type { EventEnvelope } from '../avro/envelope.ts';
import { type Topology, topology } from '../streams/topology.ts';
import type { EnvelopeStream } from './of-event.ts';

/** A product that has changed, and the version it has now. */
export interface ChangedProduct {
  readonly productId: string;
  readonly version: number;
}

/** Where products are cached; forgetting one that is not there does no harm. */
export interface ForgetsProducts {
  forget(products: readonly ChangedProduct[]): Promise<void>;
}

const changedProduct = ({ aggregateId, aggregateVersion }: EventEnvelope): ChangedProduct => ({
  productId: aggregateId,
  version: aggregateVersion,
});

/** What is cached shows name, price and stock: every event of a product makes it old, being sold out above all. */
export const productCache = (
  { stockEvents }: { readonly stockEvents: EnvelopeStream },
  cache: ForgetsProducts,
): Topology =>
  topology(
    {
      name: 'product-cache',
      version: 1,
      onFailure: { retries: 3, backoffMs: 100, afterRetries: 'skip-record' },
    },
    (t) => {
      t.stream(stockEvents)
        .map(changedProduct, { name: 'changedProduct' })
        .call('forget cached products', (products) => cache.forget(newestOfEach(products)));
    },
  );

const newestOfEach = (products: readonly ChangedProduct[]): readonly ChangedProduct[] => {
  const newest = new Map<string, number>();
  for (const { productId, version } of products) {
    newest.set(productId, Math.max(version, newest.get(productId) ?? 0));
  }
  return [...newest].map(([productId, version]) => ({ productId, version }));
};
