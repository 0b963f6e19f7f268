import { readInt4, readInt8, readTimestamp, readUuid } from '../../postgres/binary-values.ts';
import type { InsertedRow } from '../../postgres/replication-stream.ts';
import type { OutboxRow } from '../outbox-source.ts';

/** The row as the log carries it. It is never looked up: other sessions may not see it yet. */
export const decodeRow = (columns: InsertedRow): OutboxRow => ({
  id: readInt8(bytesOf(columns, 'id')),
  eventId: readUuid(bytesOf(columns, 'event_id')),
  eventType: textOf(columns, 'event_type'),
  source: textOf(columns, 'source'),
  aggregateType: textOf(columns, 'aggregate_type'),
  aggregateId: textOf(columns, 'aggregate_id'),
  aggregateVersion: readInt4(bytesOf(columns, 'aggregate_version')),
  partitionKey: textOf(columns, 'partition_key'),
  requestId: textOf(columns, 'request_id'),
  schemaFingerprint: bytesOf(columns, 'schema_fingerprint'),
  payload: bytesOf(columns, 'payload'),
  contentHash: bytesOf(columns, 'content_hash'),
  traceparent: columns.traceparent ? columns.traceparent.toString('utf8') : null,
  createdAt: readTimestamp(bytesOf(columns, 'created_at')),
});

const bytesOf = (columns: InsertedRow, name: string): Buffer => {
  const value = columns[name];
  if (!value) throw new Error(`The log carries an outbox row without ${name}`);
  return value;
};

const textOf = (columns: InsertedRow, name: string): string => bytesOf(columns, name).toString('utf8');
