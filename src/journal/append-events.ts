import type { SqlRunner } from '../postgres/database.ts';
import { isLostRace, isUniqueViolation } from '../postgres/sql-error.ts';
import type { SealedEvent } from './seal-event.ts';

/** Somebody else was faster: deciding again on the new state may well succeed. */
export class VersionConflict extends Error {
  override readonly name = 'VersionConflict';
  readonly retriable = true;
}

/** What is written with the events or not at all: the first answer under an idempotency key. */
export interface KeyedAnswer {
  readonly keyHash: Buffer;
  readonly fingerprint: Buffer;
  readonly answer: unknown;
  readonly consistencyToken: string;
}

// One statement is one transaction without the round trips of begin and commit. Both parts happen or neither.
const statement = {
  name: 'append-events',
  text: `
    with answered as (
      insert into idempotency_key (key_hash, fingerprint, answer, consistency_token)
      select * from unnest($14::bytea[], $15::bytea[], $16::json[], $17::text[])
    )
    insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version,
                        partition_key, request_id, schema_fingerprint, payload, content_hash, traceparent, occurred_at)
    select * from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::integer[],
                         $7::text[], $8::text[], $9::bytea[], $10::bytea[], $11::bytea[], $12::text[], $13::timestamptz[])`,
};

const guardedBy = ['outbox_aggregate_type_aggregate_id_aggregate_version_key', 'idempotency_key_pkey'];

/** Appends at the expected versions, for as many commands as share the transaction. */
export const appendEvents = async (
  db: SqlRunner,
  events: readonly SealedEvent[],
  answers: readonly KeyedAnswer[] = [],
): Promise<void> => {
  if (events.length === 0 && answers.length === 0) return;
  try {
    await db.execute(statement, [
      events.map((event) => event.eventId),
      events.map((event) => event.eventType),
      events.map((event) => event.source),
      events.map((event) => event.stream.aggregateType),
      events.map((event) => event.stream.aggregateId),
      events.map((event) => event.version),
      events.map((event) => event.partitionKey),
      events.map((event) => event.requestId),
      events.map((event) => event.schemaFingerprint),
      events.map((event) => event.payload),
      events.map((event) => event.contentHash),
      events.map((event) => event.traceparent),
      events.map((event) => event.occurredAt),
      answers.map(({ keyHash }) => keyHash),
      answers.map(({ fingerprint }) => fingerprint),
      answers.map(({ answer }) => JSON.stringify(answer)),
      answers.map(({ consistencyToken }) => consistencyToken),
    ]);
  } catch (cause) {
    if (isLostRace(cause) || guardedBy.some((constraint) => isUniqueViolation(cause, constraint))) {
      throw new VersionConflict('Another command was faster', { cause });
    }
    throw cause;
  }
};
