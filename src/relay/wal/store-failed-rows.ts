import type { SqlRunner } from '../../postgres/database.ts';
import type { FailedRow } from '../outbox-source.ts';

// A row that comes a second time after a crash is there already, perhaps with retries counted: it stays as it is.
const statement = {
  name: 'store-failed-wal-rows',
  text: `
    insert into outbox_failed (outbox_id, event_id, event_type, source, aggregate_type, aggregate_id,
                               aggregate_version, partition_key, request_id, schema_fingerprint, payload,
                               content_hash, traceparent, created_at, last_error)
    select * from unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[],
                         $7::integer[], $8::text[], $9::text[], $10::bytea[], $11::bytea[],
                         $12::bytea[], $13::text[], $14::timestamptz[], $15::text[])
    on conflict (outbox_id) do nothing`,
};

export const storeFailedRows = async (tx: SqlRunner, failed: readonly FailedRow[]): Promise<void> => {
  if (failed.length === 0) return;
  await tx.execute(statement, [
    failed.map(({ row }) => row.id),
    failed.map(({ row }) => row.eventId),
    failed.map(({ row }) => row.eventType),
    failed.map(({ row }) => row.source),
    failed.map(({ row }) => row.aggregateType),
    failed.map(({ row }) => row.aggregateId),
    failed.map(({ row }) => row.aggregateVersion),
    failed.map(({ row }) => row.partitionKey),
    failed.map(({ row }) => row.requestId),
    failed.map(({ row }) => row.schemaFingerprint),
    failed.map(({ row }) => row.payload),
    failed.map(({ row }) => row.contentHash),
    failed.map(({ row }) => row.traceparent),
    failed.map(({ row }) => row.createdAt),
    failed.map(({ error }) => error),
  ]);
};
