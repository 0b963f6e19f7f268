import type { Envelope } from '../avro/envelope.ts';
import { readEnvelope } from '../avro/read-envelope.ts';
import { contentHash } from '../journal/content-hash.ts';
import type { WriterSchemas } from '../journal/writer-schemas.ts';
import type { SqlRunner } from '../postgres/database.ts';
import { type EventRef, refValues } from './event-selection.ts';
import { eventColumns, type OutboxEvent } from './outbox-event.ts';

interface AuditedStep {
  readonly at: Date;
  readonly who: string;
  readonly action: string;
}

/** Everything there is to know about one event. */
export interface ShownEvent extends OutboxEvent {
  readonly source: string;
  readonly partitionKey: string;
  readonly requestId: string;
  readonly traceparent: string | null;
  readonly payloadBytes: number;
  /** False when the payload is not what the command wrote. */
  readonly isGenuine: boolean;
  /** What the event says; or why it cannot be read, which must not hide the rest. */
  readonly envelope: Envelope | { readonly unreadable: string };
  /** What operators did to it, oldest first. */
  readonly operators: readonly AuditedStep[];
}

interface Found extends OutboxEvent {
  readonly source: string;
  readonly partitionKey: string;
  readonly requestId: string;
  readonly traceparent: string | null;
  readonly schemaFingerprint: Buffer;
  readonly payload: Buffer;
  readonly contentHash: Buffer;
}

const resolveStatement = {
  name: 'find-outbox-id',
  text: 'select id from outbox where event_id = $1',
};

const showStatement = {
  name: 'show-outbox-event',
  text: `
    select ${eventColumns}, source, partition_key as "partitionKey", request_id as "requestId", traceparent,
           schema_fingerprint as "schemaFingerprint", payload, content_hash as "contentHash"
    from outbox_event_state
    join (select id, source, partition_key, request_id, traceparent, schema_fingerprint, payload, content_hash
          from outbox) written using (id)
    where id = $1`,
};

// Bounded: an event that was put back more often than this has other problems than an incomplete list.
const stepsStatement = {
  name: 'show-operator-steps',
  text: `
    select at, who, action from operator_audit
    where target @> jsonb_build_object('outboxId', $1::bigint)
       or target @> jsonb_build_object('outboxIds', jsonb_build_array($1::bigint))
    order by id
    limit 100`,
};

/** The id in the outbox of an event, or nothing when the journal does not have it. */
export const findOutboxId = async (db: SqlRunner, ref: EventRef): Promise<number | undefined> => {
  const [outboxId, eventId] = refValues(ref);
  if (outboxId !== null) return outboxId;
  const [row] = await db.execute<{ id: number }>(resolveStatement, [eventId]);
  return row?.id;
};

export const showEvent = async (
  db: SqlRunner,
  schemas: WriterSchemas,
  ref: EventRef,
): Promise<ShownEvent | undefined> => {
  const id = await findOutboxId(db, ref);
  if (id === undefined) return undefined;
  const [row] = await db.execute<Found>(showStatement, [id]);
  if (!row) return undefined;
  const { schemaFingerprint, payload, contentHash: storedHash, ...told } = row;
  return {
    ...told,
    payloadBytes: payload.length,
    isGenuine: contentHash(row).equals(storedHash),
    envelope: await decode(schemas, schemaFingerprint, payload),
    operators: await db.execute<AuditedStep>(stepsStatement, [id]),
  };
};

const decode = async (
  schemas: WriterSchemas,
  fingerprint: Buffer,
  payload: Buffer,
): Promise<ShownEvent['envelope']> => {
  try {
    const { type } = await schemas.find(fingerprint);
    return readEnvelope(type, payload);
  } catch (error) {
    return { unreadable: (error as Error).message };
  }
};
