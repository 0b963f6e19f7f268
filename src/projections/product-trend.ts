import type { CounterTable } from '../streams/tables.ts';
import { type Topology, topology } from '../streams/topology.ts';
import { hopping } from '../streams/windows.ts';
import { type EnvelopeStream, ofEvent } from './of-event.ts';
import { oncePerOrder, product, soldItems, soldProduct } from './of-product.ts';

const trend = {
  table: 'product_trend',
  keyColumn: 'product_id',
  windowColumn: 'window_start',
  columns: ['like_count', 'sales_count', 'view_count'],
} as const satisfies CounterTable;

const minute_ms = 60_000;

/** What happened in an hour, told anew every five minutes. */
export const trendWindows = hopping({
  sizeMs: 60 * minute_ms,
  advanceMs: 5 * minute_ms,
  graceMs: 60 * minute_ms,
});

export interface ProductTrendSources {
  readonly likeEvents: EnvelopeStream;
  readonly orderEvents: EnvelopeStream;
  readonly viewEvents: EnvelopeStream;
}

/** What sells, is seen and is liked now: the same counts as the statistic, by window. The top of a window is a query. */
export const productTrend = (from: ProductTrendSources): Topology =>
  topology(
    {
      name: 'product-trend',
      version: 1,
      onFailure: { retries: 3, backoffMs: 100, afterRetries: 'skip-record' },
    },
    (t) => {
      t.stream(from.likeEvents)
        .filter(ofEvent('LikeCreated'))
        .groupBy(product)
        .windowedBy(trendWindows)
        .count(trend, 'like_count', { action: 'LIKE_COUNT_INCREASED' });

      t.stream(from.orderEvents)
        .filter(ofEvent('OrderPaid'))
        .flatMap(soldItems)
        .groupBy(soldProduct)
        .windowedBy(trendWindows)
        .sum(trend, 'sales_count', ({ quantity }) => quantity, {
          action: 'SALES_COUNT_INCREASED',
          once: oncePerOrder,
        });

      t.stream(from.viewEvents)
        .filter(ofEvent('ProductViewed'))
        .groupBy(product)
        .windowedBy(trendWindows)
        .count(trend, 'view_count', { action: 'VIEW_COUNT_INCREASED' });
    },
  );
