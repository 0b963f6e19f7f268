import type { Envelope } from '../avro/envelope.ts';
import type { CounterTable, StreamOf, Topology } from '../streams/topology.ts';
import { topology } from '../streams/topology.ts';
import { ofEvent } from './of-event.ts';

const statistic = {
  table: 'product_statistic',
  keyColumn: 'product_id',
  columns: ['like_count', 'sales_count', 'view_count'],
} as const satisfies CounterTable;

export interface ProductStatisticSources {
  readonly productViewEvents: StreamOf<Envelope>;
  readonly stockEvents: StreamOf<Envelope>;
}

/** How often each product was seen; a product that nobody has looked at yet has a row of zeros. */
export const productStatistic = ({ productViewEvents, stockEvents }: ProductStatisticSources): Topology =>
  topology('product-statistic', (t) => {
    t.stream(stockEvents)
      .filter(ofEvent('ProductRegistered'))
      .groupBy((event) => event.data.productId)
      .toRow(statistic);

    t.stream(productViewEvents)
      .filter(ofEvent('ProductViewed'))
      .groupBy((event) => event.data.productId)
      .count(statistic, 'view_count', {
        once: (event) => ({
          aggregateType: event.aggregateType,
          aggregateId: event.aggregateId,
          action: 'VIEW_COUNT_INCREASED',
        }),
      });
  });
