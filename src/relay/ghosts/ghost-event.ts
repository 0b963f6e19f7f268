import type { SqlRunner } from '../../postgres/database.ts';

/** A record in Kafka and the event that it carries. */
export interface PublishedEvent {
  readonly eventId: string;
  readonly eventType: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly aggregateVersion: number;
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly recordedAt: Date;
}

/** An event that Kafka has and the journal has not. */
export interface GhostEvent extends PublishedEvent {
  readonly foundAt: Date;
  /** The event that has its place in the journal now: the same aggregate, the same version. */
  readonly replacedBy: string | null;
}

// By the aggregate and its version, along the index that keeps versions unique: event ids have no such index, and a tree
// for them would be written to by every command. The limit keeps the planner from joining with the whole table.
const missing = `
  from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::integer[], $8::bigint[],
              $9::timestamptz[])
    as record(event_id, event_type, aggregate_type, aggregate_id, aggregate_version, topic, partition, record_offset,
              recorded_at)
  left join lateral (
    select event_id from outbox o
    where o.aggregate_type = record.aggregate_type and o.aggregate_id = record.aggregate_id
      and o.aggregate_version = record.aggregate_version
    limit 1) kept on true
  where kept.event_id is distinct from record.event_id`;

const findStatement = {
  name: 'find-missing-events',
  text: `select record.event_id as "eventId" ${missing}`,
};

const storeStatement = {
  name: 'store-ghost-events',
  text: `
    insert into ghost_event (event_id, event_type, aggregate_type, aggregate_id, aggregate_version, topic, partition,
                             record_offset, recorded_at)
    select record.* ${missing}
    on conflict (event_id) do nothing
    returning event_id`,
};

const columnsOf = (events: readonly PublishedEvent[]): readonly unknown[] => [
  events.map(({ eventId }) => eventId),
  events.map(({ eventType }) => eventType),
  events.map(({ aggregateType }) => aggregateType),
  events.map(({ aggregateId }) => aggregateId),
  events.map(({ aggregateVersion }) => aggregateVersion),
  events.map(({ topic }) => topic),
  events.map(({ partition }) => partition),
  events.map(({ offset }) => offset),
  events.map(({ recordedAt }) => recordedAt),
];

/** Those that cannot be seen in the journal at the moment. */
export const findMissing = async (
  db: SqlRunner,
  events: readonly PublishedEvent[],
): Promise<readonly PublishedEvent[]> => {
  const rows = await db.execute<{ eventId: string }>(findStatement, columnsOf(events));
  const ids = new Set(rows.map(({ eventId }) => eventId));
  return events.filter(({ eventId }) => ids.has(eventId));
};

/** Stores those that the journal still does not have; answers with how many were not known before. */
export const storeGhosts = async (db: SqlRunner, events: readonly PublishedEvent[]): Promise<number> =>
  (await db.execute(storeStatement, columnsOf(events))).length;

const forgetStatement = {
  name: 'forget-events-that-came-back',
  text: `
    delete from ghost_event ghost using outbox o
    where o.aggregate_type = ghost.aggregate_type and o.aggregate_id = ghost.aggregate_id
      and o.aggregate_version = ghost.aggregate_version and o.event_id = ghost.event_id
    returning ghost.event_id`,
};

/** An event that a stream derives has the same id when it is derived again: then the journal has it after all. */
export const forgetReturned = async (db: SqlRunner): Promise<number> =>
  (await db.execute(forgetStatement)).length;
