import type { EventEnvelope } from '../avro/envelope.ts';
import { eventNameOf } from '../event-catalogue/event-catalogue.ts';
import type { RowTable } from '../streams/tables.ts';
import { type Topology, topology } from '../streams/topology.ts';
import { type EnvelopeOf, type EnvelopeStream, ofEvent } from './of-event.ts';

const orderTable = {
  table: 'order_view',
  keyColumn: 'order_id',
  columns: [
    'user_id',
    'status',
    'items',
    'total_minor',
    'currency',
    'payment_id',
    'version',
    'created_at',
    'updated_at',
    'history',
  ],
} as const satisfies RowTable;

/** A row of `order_view`: the order as its buyer sees it. */
export interface OrderRow {
  readonly user_id: string;
  readonly status: 'created' | 'paid' | 'canceled';
  readonly items: readonly { productId: string; quantity: number; unitPriceMinor: number }[];
  readonly total_minor: number;
  readonly currency: string;
  readonly payment_id: string | null;
  readonly version: number;
  readonly created_at: string;
  readonly updated_at: string;
  readonly history: readonly OrderHistoryEntry[];
}

export interface OrderHistoryEntry {
  readonly version: number;
  readonly event: string;
  readonly at: string;
  readonly eventId: string;
  readonly data: Readonly<Record<string, unknown>>;
}

const statuses = { OrderCreated: 'created', OrderPaid: 'paid', OrderCanceled: 'canceled' } as const;
type OrderEventName = keyof typeof statuses;
const isOrderEvent = (name: string | undefined): name is OrderEventName =>
  name !== undefined && name in statuses;

/** What an order is after another of its events. */
export const orderAfter = (row: OrderRow | null, event: EventEnvelope): OrderRow => {
  const name = eventNameOf(event.type);
  if (!isOrderEvent(name)) throw new Error(`${event.type} is not an event of an order`);
  const { data, aggregateVersion: version } = event as EnvelopeOf<OrderEventName>;
  const { userId, orderId } = data;
  const at = new Date(event.time).toISOString();
  const items = data.items.map(({ productId, quantity, unitPriceMinor }) => ({
    productId,
    quantity,
    unitPriceMinor,
  }));
  const total = { amountMinor: data.total.amountMinor, currency: data.total.currency };
  const paid = ofEvent('OrderPaid')(event) ? { paymentId: event.data.paymentId } : {};
  // Field by field: what an event may say one day is not in the model before it is meant to be.
  const told = { orderId, userId, items, total, ...paid };
  return {
    user_id: userId,
    status: statuses[name],
    items,
    total_minor: total.amountMinor,
    currency: total.currency,
    payment_id: paid.paymentId ?? row?.payment_id ?? null,
    version,
    created_at: row?.created_at ?? at,
    updated_at: at,
    history: [...(row?.history ?? []), { version, event: event.type, at, eventId: event.id, data: told }],
  };
};

/** Each order with its history. Order matters here: a version that is missing is waited for, until an operator skips it. */
export const orderView = ({ orderEvents }: { readonly orderEvents: EnvelopeStream }): Topology =>
  topology(
    { name: 'order-view', version: 1, onFailure: { retries: 3, backoffMs: 100, afterRetries: 'park-key' } },
    (t) => {
      t.stream(orderEvents)
        .inOrder('order-versions', { version: ({ aggregateVersion }) => aggregateVersion })
        .groupByKey()
        .aggregate<OrderRow | null>('order', { initial: null, fold: orderAfter, table: orderTable });
    },
  );
