import type { EventEnvelope } from '../avro/envelope.ts';
import { type Topology, topology } from '../streams/topology.ts';
import { type EnvelopeStream, ofEvent } from './of-event.ts';

/** Where products are cached; forgetting one that is not there does no harm. */
export interface ForgetsProducts {
  forget(productIds: readonly string[]): Promise<void>;
}

/** Events after which a cached product would mislead a shopper: it is sold out, or has another name or price. */
const changesWhatIsShown = (event: EventEnvelope): boolean =>
  ofEvent('StockDepleted')(event) || ofEvent('ProductRegistered')(event);

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
        .filter(changesWhatIsShown)
        .map(({ aggregateId }) => aggregateId)
        .call('forget cached products', (productIds) => cache.forget([...new Set(productIds)]));
    },
  );
