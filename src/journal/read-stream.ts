import { decodeEnvelope } from '../avro/decode-envelope.ts';
import type { DomainEvent } from '../domain/domain-event.ts';
import { eventNameOf } from '../event-catalogue/event-catalogue.ts';
import type { SqlRunner } from '../postgres/database.ts';
import type { StreamId } from './seal-event.ts';
import type { WriterSchemas } from './writer-schemas.ts';

interface StreamRow {
  readonly event_type: string;
  readonly schema_fingerprint: Buffer;
  readonly payload: Buffer;
}

const statement = {
  name: 'read-stream',
  text: `
    select event_type, schema_fingerprint, payload
    from outbox
    where aggregate_type = $1 and aggregate_id = $2
    order by aggregate_version`,
};

/** The events of one aggregate, oldest first: version n stands at place n. */
export const readStream = async (
  tx: SqlRunner,
  schemas: WriterSchemas,
  stream: StreamId,
): Promise<readonly DomainEvent[]> => {
  const rows = await tx.execute<StreamRow>(statement, [stream.aggregateType, stream.aggregateId]);
  const events: DomainEvent[] = [];
  for (const row of rows) {
    const name = eventNameOf(row.event_type);
    if (!name) throw new Error(`The journal has an event of the unknown type ${row.event_type}`);
    const writer = await schemas.find(row.schema_fingerprint);
    const { data } = decodeEnvelope(writer.type, row.payload);
    events.push({ type: name, ...data } as unknown as DomainEvent);
  }
  return events;
};

const existsStatement = {
  name: 'stream-exists',
  text: `
    select exists (select from outbox
                   where aggregate_type = $1 and aggregate_id = $2 and aggregate_version = 1) as found`,
};

export const streamExists = async (tx: SqlRunner, stream: StreamId): Promise<boolean> => {
  const [row] = await tx.execute<{ found: boolean }>(existsStatement, [
    stream.aggregateType,
    stream.aggregateId,
  ]);
  return row?.found ?? false;
};
