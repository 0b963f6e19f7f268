import type { EventEnvelope } from '../avro/envelope.ts';
import type { Histories, Moment } from '../http/api-ports.ts';
import { type HistoryEntry, streamHistory } from '../journal/stream-history.ts';
import type { WriterSchemas } from '../journal/writer-schemas.ts';
import type { SqlRunner } from '../postgres/database.ts';
import { type OrderRow, orderAfter } from '../projections/order-view.ts';
import type { Order } from '../read-model/order.ts';

/** The past: the events of the journal up to a moment, through the same fold that makes the read model. */
export const createHistories = (database: SqlRunner, schemas: WriterSchemas): Histories => ({
  orderAt: async (orderId, moment) => {
    const stream = { aggregateType: 'Order', aggregateId: orderId } as const;
    const events = eventsUntil(await streamHistory(database, schemas, stream), moment);
    const row = events.reduce<OrderRow | null>(
      (state, entry) => orderAfter(state, envelopeOf(orderId, entry)),
      null,
    );
    return row && orderOf(orderId, row);
  },
});

/**
 * In the order of versions up to the first event that is later: clocks of several processes may differ, and a version
 * without the ones before it never was.
 */
export const eventsUntil = (events: readonly HistoryEntry[], moment: Moment): readonly HistoryEntry[] => {
  if ('version' in moment) return events.length < moment.version ? [] : events.slice(0, moment.version);
  const later = events.findIndex(({ time }) => time > moment.time);
  return later === -1 ? events : events.slice(0, later);
};

const envelopeOf = (
  orderId: string,
  { eventId, type, version, time, data }: HistoryEntry,
): EventEnvelope => ({
  id: eventId,
  type,
  aggregateType: 'Order',
  aggregateId: orderId,
  aggregateVersion: version,
  time: time.getTime(),
  data,
});

const orderOf = (orderId: string, row: OrderRow): Order => ({
  orderId,
  userId: row.user_id,
  status: row.status,
  items: [...row.items],
  totalMinor: row.total_minor,
  currency: row.currency,
  paymentId: row.payment_id,
  version: row.version,
  createdAt: new Date(row.created_at),
  updatedAt: new Date(row.updated_at),
});
