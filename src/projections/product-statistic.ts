import type { CounterTable } from '../streams/tables.ts';
import { type Topology, topology } from '../streams/topology.ts';
import { type EnvelopeStream, ofEvent } from './of-event.ts';
import { oncePerOrder, product, soldItems, soldProduct } from './of-product.ts';

const statistic = {
  table: 'product_statistic',
  keyColumn: 'product_id',
  columns: ['like_count', 'sales_count', 'view_count'],
} as const satisfies CounterTable;

export interface ProductStatisticSources {
  readonly stockEvents: EnvelopeStream;
  readonly likeEvents: EnvelopeStream;
  readonly orderEvents: EnvelopeStream;
  readonly viewEvents: EnvelopeStream;
}

/** Likes, sales and views of each product. A product that nobody has looked at yet has a row of zeros. */
export const productStatistic = (from: ProductStatisticSources): Topology =>
  topology(
    {
      name: 'product-statistic',
      version: 1,
      onFailure: { retries: 3, backoffMs: 100, afterRetries: 'skip-record' },
    },
    (t) => {
      t.stream(from.stockEvents).filter(ofEvent('ProductRegistered')).groupBy(product).toRow(statistic);

      const likes = t.stream(from.likeEvents);
      likes
        .filter(ofEvent('LikeCreated'))
        .groupBy(product)
        .count(statistic, 'like_count', { action: 'LIKE_COUNT_INCREASED' });
      likes
        .filter(ofEvent('LikeCanceled'))
        .groupBy(product)
        .sum(statistic, 'like_count', () => -1, { action: 'LIKE_COUNT_DECREASED' });

      t.stream(from.orderEvents)
        .filter(ofEvent('OrderPaid'))
        .flatMap(soldItems)
        .groupBy(soldProduct)
        .sum(statistic, 'sales_count', ({ quantity }) => quantity, {
          action: 'SALES_COUNT_INCREASED',
          once: oncePerOrder,
        });

      t.stream(from.viewEvents)
        .filter(ofEvent('ProductViewed'))
        .groupBy(product)
        .count(statistic, 'view_count', { action: 'VIEW_COUNT_INCREASED' });
    },
  );
