import type { EventEnvelope } from '../avro/envelope.ts';
import type { RowTable } from '../streams/tables.ts';
import type { Processor } from '../streams/timers/processor.ts';
import { type Topology, topology } from '../streams/topology.ts';
import { type EnvelopeOf, type EnvelopeStream, ofEvent } from './of-event.ts';

const outageTable = {
  table: 'stock_outage',
  keyColumn: 'product_id',
  columns: ['name', 'out_since', 'overdue_at'],
  clockColumns: ['overdue_at'],
} as const satisfies RowTable;

/** A row of `stock_outage`: a product that is out of stock. */
export interface OutageRow {
  readonly name: string;
  readonly out_since: string;
  /** When it had been so for too long; null as long as it has not. */
  readonly overdue_at: string | null;
}

interface KnownProduct {
  readonly name: string;
  readonly outSinceMs: number | null;
}

export interface StockOutageOptions {
  readonly stockEvents: EnvelopeStream;
  /** How long a product may be out of stock before it is overdue; for outages that begin from now on. */
  readonly overdueAfterMs: number;
}

const isRegistered = ofEvent('ProductRegistered');
const isDepleted = ofEvent('StockDepleted');

/** Every event of a product carries the stock it leaves behind. */
const stockAfter = (event: EventEnvelope): number =>
  isDepleted(event)
    ? 0
    : (event as EnvelopeOf<'ProductRegistered' | 'StockAdjusted' | 'StockReserved' | 'StockReleased'>).data
        .stock;

const isoTime = (timeMs: number): string => new Date(timeMs).toISOString();

const outages = (overdueAfterMs: number): Processor<EventEnvelope, KnownProduct, OutageRow | null> => ({
  onRecord: ({ key, value: event }, { store, forward, schedule, cancel }) => {
    const known = isRegistered(event) ? { name: event.data.name, outSinceMs: null } : store.get();
    if (!known) throw new Error(`${key} has a ${event.type} before it was registered`);
    const isOut = stockAfter(event) === 0;
    const wasOut = known.outSinceMs !== null;
    if (isOut && !wasOut) {
      store.put({ ...known, outSinceMs: event.time });
      schedule({ name: 'overdue', atMs: event.time + overdueAfterMs, by: 'wall-clock' });
      forward({ name: known.name, out_since: isoTime(event.time), overdue_at: null });
    } else if (!isOut && wasOut) {
      store.put({ ...known, outSinceMs: null });
      cancel('overdue');
      forward(null);
    } else if (isRegistered(event)) store.put(known);
  },
  onTimer: ({ atMs }, { store, forward }) => {
    const known = store.get();
    if (known?.outSinceMs == null) return;
    forward({ name: known.name, out_since: isoTime(known.outSinceMs), overdue_at: isoTime(atMs) });
  },
});

/**
 * Products that are out of stock. One that stays so for too long is overdue; nothing happens then that an event could tell of, so
 * a timer does, by the wall clock.
 */
export const stockOutage = ({ stockEvents, overdueAfterMs }: StockOutageOptions): Topology =>
  topology(
    {
      name: 'stock-outage',
      version: 1,
      onFailure: { retries: 3, backoffMs: 100, afterRetries: 'park-key' },
    },
    (t) => {
      t.stream(stockEvents)
        .inOrder('product-versions', { version: ({ aggregateVersion }) => aggregateVersion })
        .process('outage', outages(overdueAfterMs))
        .toTable('stock-outage', { table: outageTable });
    },
  );
