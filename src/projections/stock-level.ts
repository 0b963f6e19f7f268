import type { EventEnvelope } from '../avro/envelope.ts';
import type { RowTable } from '../streams/tables.ts';
import { type Topology, topology } from '../streams/topology.ts';
import { type EnvelopeOf, type EnvelopeStream, ofEvent } from './of-event.ts';

const stockTable = {
  table: 'stock_level',
  keyColumn: 'product_id',
  columns: ['name', 'price_minor', 'currency', 'stock', 'version', 'updated_at'],
} as const satisfies RowTable;

/** A row of `stock_level`: what a product is called, costs, and how much of it is left. */
export interface StockRow {
  readonly name: string;
  readonly price_minor: number;
  readonly currency: string;
  readonly stock: number;
  readonly version: number;
  readonly updated_at: string;
}

const after = (row: StockRow | null, event: EventEnvelope): StockRow => {
  const told = { version: event.aggregateVersion, updated_at: new Date(event.time).toISOString() };
  if (ofEvent('ProductRegistered')(event)) {
    const { name, price, stock } = event.data;
    return { name, price_minor: price.amountMinor, currency: price.currency, stock, ...told };
  }
  if (!row) throw new Error(`${event.aggregateId} has a ${event.type} before it was registered`);
  if (ofEvent('StockDepleted')(event)) return { ...row, stock: 0, ...told };
  // Every other event of a product carries the stock it leaves behind.
  const { stock } = (event as EnvelopeOf<'StockAdjusted' | 'StockReserved' | 'StockReleased'>).data;
  return { ...row, stock, ...told };
};

export const stockLevel = ({ stockEvents }: { readonly stockEvents: EnvelopeStream }): Topology =>
  topology(
    { name: 'stock-level', version: 1, onFailure: { retries: 3, backoffMs: 100, afterRetries: 'park-key' } },
    (t) => {
      t.stream(stockEvents)
        .inOrder('product-versions', { version: ({ aggregateVersion }) => aggregateVersion })
        .groupByKey()
        .aggregate<StockRow | null>('stock', { initial: null, fold: after, table: stockTable });
    },
  );
