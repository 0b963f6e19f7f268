import type { EventEnvelope } from '../avro/envelope.ts';
import { joinWindows } from '../streams/joins/join-windows.ts';
import type { RowTable } from '../streams/tables.ts';
import { type Topology, topology } from '../streams/topology.ts';
import { type EnvelopeOf, type EnvelopeStream, ofEvent } from './of-event.ts';

const paymentTable = {
  table: 'order_payment',
  keyColumn: 'order_id',
  columns: ['user_id', 'outcome', 'total_minor', 'currency', 'created_at', 'settled_at', 'abandoned_at'],
} as const satisfies RowTable;

/** A row of `order_payment`: what became of an order, and how long it took. */
export interface OrderPaymentRow {
  readonly user_id: string;
  readonly outcome: 'paid' | 'canceled' | 'abandoned';
  readonly total_minor: number;
  readonly currency: string;
  readonly created_at: string | null;
  readonly settled_at: string | null;
  /** Stays when the order is settled later. */
  readonly abandoned_at: string | null;
}

const minute_ms = 60_000;
const abandonedAfterMs = 30 * minute_ms;

/** Clocks of two processes may differ by a little, so that an order may seem to be paid before it is placed. */
const paymentWindows = joinWindows({
  beforeMs: minute_ms,
  afterMs: abandonedAfterMs,
  graceMs: 5 * minute_ms,
});

interface Placed {
  readonly order: Pick<OrderPaymentRow, 'user_id' | 'total_minor' | 'currency'>;
  readonly atMs: number;
}
interface Settled extends Placed {
  readonly outcome: 'paid' | 'canceled';
}
interface Met {
  readonly placed: Placed | null;
  readonly settled: Settled | null;
}

const placed = ({ data, time }: EnvelopeOf<'OrderCreated' | 'OrderPaid' | 'OrderCanceled'>): Placed => ({
  order: {
    user_id: data.userId,
    total_minor: data.total.amountMinor,
    currency: data.total.currency,
  },
  atMs: time,
});

const isPaid = ofEvent('OrderPaid');
const isCanceled = ofEvent('OrderCanceled');
const isSettling = (event: EventEnvelope): event is EnvelopeOf<'OrderPaid' | 'OrderCanceled'> =>
  isPaid(event) || isCanceled(event);
const settled = (event: EnvelopeOf<'OrderPaid' | 'OrderCanceled'>): Settled => ({
  ...placed(event),
  outcome: isPaid(event) ? 'paid' : 'canceled',
});

const isoTime = (timeMs: number): string => new Date(timeMs).toISOString();

const nothingKnown = { created_at: null, settled_at: null, abandoned_at: null } as const;

/** What is settled stays so, though the news that it was placed may come later. */
const after = (row: OrderPaymentRow | null, met: Met): OrderPaymentRow => {
  const told = met.settled ?? met.placed;
  if (!told) throw new Error('A join hands on what has at least one side');
  const known = { ...nothingKnown, ...row, ...told.order };
  const created_at = met.placed ? isoTime(met.placed.atMs) : known.created_at;
  if (met.settled) {
    return { ...known, outcome: met.settled.outcome, created_at, settled_at: isoTime(met.settled.atMs) };
  }
  const abandoned_at = isoTime(told.atMs + abandonedAfterMs);
  const outcome = row?.settled_at ? row.outcome : 'abandoned';
  return { ...known, outcome, created_at, abandoned_at };
};

/**
 * Orders and whether they were paid or canceled within half an hour. Both sides are events of the order, which have its id as
 * their key: payments have their own, and would have to be derived anew under the order's, which no rebuild can repeat.
 */
export const orderPayment = ({ orderEvents }: { readonly orderEvents: EnvelopeStream }): Topology =>
  topology(
    {
      name: 'order-payment',
      version: 1,
      onFailure: { retries: 3, backoffMs: 100, afterRetries: 'park-key' },
    },
    (t) => {
      const orders = t.stream(orderEvents);
      const settling = orders
        .filter(isSettling, { name: 'settled orders' })
        .map(settled, { name: 'as settled' });
      orders
        .filter(ofEvent('OrderCreated'))
        .map(placed, { name: 'as placed' })
        .outerJoin(settling, (one, other): Met => ({ placed: one ?? null, settled: other ?? null }), {
          name: 'order-settled',
          windows: paymentWindows,
        })
        .groupByKey()
        .aggregate<OrderPaymentRow | null>('order-payment', {
          initial: null,
          fold: after,
          table: paymentTable,
        });
    },
  );
