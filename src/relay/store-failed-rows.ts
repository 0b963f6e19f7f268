import type { SqlRunner } from '../postgres/database.ts';
import type { FailedRow } from './outbox-source.ts';

const statement = {
  name: 'store-failed-rows',
  text: `
    insert into outbox_failed (outbox_id, event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version,
                               partition_key, request_id, schema_fingerprint, payload, content_hash, traceparent,
                               created_at, last_error, dead_at, unanswered_count)
    select outbox_id, event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version, partition_key,
           request_id, schema_fingerprint, payload, content_hash, traceparent, created_at, last_error,
           case when dead then clock_timestamp() end, unanswered_count
    from unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::integer[], $8::text[],
                $9::text[], $10::bytea[], $11::bytea[], $12::bytea[], $13::text[], $14::timestamptz[], $15::text[]
         ) with ordinality as f(outbox_id, event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version,
                                partition_key, request_id, schema_fingerprint, payload, content_hash, traceparent,
                                created_at, last_error, place),
         unnest($16::boolean[], $17::integer[]) with ordinality as d(dead, unanswered_count, dead_place)
    where place = dead_place
    on conflict (outbox_id) do nothing`,
};

const leaveOutStatement = {
  name: 'leave-out-dropped-rows',
  text: `
    delete from outbox_failed failed using outbox_dropped dropped
    where failed.outbox_id = dropped.outbox_id and failed.outbox_id = any ($1::bigint[])`,
};

/** Keeps the full rows in a transaction; one that is there already stays as it is, one that was dropped is left out. */
export const storeFailedRows = async (tx: SqlRunner, failed: readonly FailedRow[]): Promise<void> => {
  if (failed.length === 0) return;
  const rows = failed.map(({ row }) => row);
  await tx.execute(statement, [
    rows.map((row) => row.id),
    rows.map((row) => row.eventId),
    rows.map((row) => row.eventType),
    rows.map((row) => row.source),
    rows.map((row) => row.aggregateType),
    rows.map((row) => row.aggregateId),
    rows.map((row) => row.aggregateVersion),
    rows.map((row) => row.partitionKey),
    rows.map((row) => row.requestId),
    rows.map((row) => row.schemaFingerprint),
    rows.map((row) => row.payload),
    rows.map((row) => row.contentHash),
    rows.map((row) => row.traceparent),
    rows.map((row) => row.createdAt),
    failed.map(({ error }) => error),
    failed.map(({ dead }) => dead ?? false),
    failed.map(({ unansweredCount }) => unansweredCount ?? 0),
  ]);
  // After the insert, which waits for an operator who is just dropping one of them and puts it in again.
  await tx.execute(leaveOutStatement, [rows.map((row) => row.id)]);
};
