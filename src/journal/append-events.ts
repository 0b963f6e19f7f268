import type { SqlRunner } from '../postgres/database.ts';
import { isUniqueViolation } from '../postgres/sql-error.ts';
import type { SealedEvent } from './seal-event.ts';

/** Somebody else appended to the stream first; deciding again on the new state may well succeed. */
export class VersionConflict extends Error {
  override readonly name = 'VersionConflict';
}

const statement = {
  name: 'append-events',
  text: `
    insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version,
                        partition_key, request_id, schema_fingerprint, payload, content_hash, traceparent, occurred_at)
    select * from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::integer[],
                         $7::text[], $8::text[], $9::bytea[], $10::bytea[], $11::bytea[], $12::text[], $13::timestamptz[])`,
};

export const appendEvents = async (tx: SqlRunner, events: readonly SealedEvent[]): Promise<void> => {
  if (events.length === 0) return;
  try {
    await tx.execute(statement, [
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
    ]);
  } catch (cause) {
    if (isUniqueViolation(cause, 'outbox_aggregate_type_aggregate_id_aggregate_version_key')) {
      throw new VersionConflict('Another command appended to the stream first', { cause });
    }
    throw cause;
  }
};
