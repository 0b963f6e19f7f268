import type { InsertedRow } from '../../postgres/inserted-row.ts';
import type { OutboxRow } from '../outbox-source.ts';

/** The row as the log carries it. It is never looked up: other sessions may not see it yet. */
export const decodeRow = (row: InsertedRow): OutboxRow => ({
  id: row.int8('id'),
  eventId: row.uuid('event_id'),
  eventType: row.text('event_type'),
  source: row.text('source'),
  aggregateType: row.text('aggregate_type'),
  aggregateId: row.text('aggregate_id'),
  aggregateVersion: row.int4('aggregate_version'),
  partitionKey: row.text('partition_key'),
  requestId: row.text('request_id'),
  schemaFingerprint: row.bytes('schema_fingerprint'),
  payload: row.bytes('payload'),
  contentHash: row.bytes('content_hash'),
  traceparent: row.isNull('traceparent') ? null : row.text('traceparent'),
  createdAt: row.timestamp('created_at'),
});
