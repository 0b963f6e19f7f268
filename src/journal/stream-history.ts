import { readEnvelope } from '../avro/read-envelope.ts';
import type { SqlRunner } from '../postgres/database.ts';
import type { StreamId } from './seal-event.ts';
import type { WriterSchemas } from './writer-schemas.ts';

/** One event of a stream as its owner may read it. */
export interface HistoryEntry {
  readonly eventId: string;
  readonly type: string;
  readonly version: number;
  readonly time: Date;
  readonly data: Readonly<Record<string, unknown>>;
}

const statement = {
  name: 'stream-history',
  text: `
    select schema_fingerprint as "schemaFingerprint", payload
    from outbox
    where aggregate_type = $1 and aggregate_id = $2
    order by aggregate_version`,
};

/** What has happened to one aggregate, oldest first, in today's terms. */
export const streamHistory = async (
  db: SqlRunner,
  schemas: WriterSchemas,
  stream: StreamId,
): Promise<readonly HistoryEntry[]> => {
  const rows = await db.execute<{ schemaFingerprint: Buffer; payload: Buffer }>(statement, [
    stream.aggregateType,
    stream.aggregateId,
  ]);
  const entries: HistoryEntry[] = [];
  for (const row of rows) {
    const writer = await schemas.find(row.schemaFingerprint);
    const envelope = readEnvelope(writer.type, row.payload);
    entries.push({
      eventId: envelope.id,
      type: envelope.type,
      version: envelope.aggregateVersion,
      time: new Date(envelope.time),
      data: envelope.data,
    });
  }
  return entries;
};
