import { encodeEnvelope } from '../avro/encode-envelope.ts';
import { envelopeSchemaOf } from '../avro/envelope-schema.ts';
import {
  type AggregateType,
  type CataloguedEvent,
  eventCatalogue,
  type JournalStreamType,
  partitionKeyOf,
} from '../event-catalogue/event-catalogue.ts';
import { contentHash } from './content-hash.ts';

export interface StreamId<Type extends JournalStreamType = AggregateType> {
  readonly aggregateType: Type;
  readonly aggregateId: string;
}

/** Where a command came from; it travels with every event the command leads to. */
export interface CommandContext {
  readonly requestId: string;
  readonly correlationId: string;
  readonly traceparent: string | null;
}

export interface EventToSeal {
  readonly eventId: string;
  readonly stream: StreamId<JournalStreamType>;
  readonly version: number;
  readonly event: CataloguedEvent;
  readonly occurredAt: Date;
  readonly source: string;
  readonly context: CommandContext;
}

/** An event as a row of the outbox: encoded, hashed, ready to append. */
export interface SealedEvent {
  readonly eventId: string;
  readonly eventType: string;
  readonly source: string;
  readonly stream: StreamId<JournalStreamType>;
  readonly version: number;
  readonly partitionKey: string;
  readonly requestId: string;
  readonly schemaFingerprint: Buffer;
  readonly payload: Buffer;
  readonly contentHash: Buffer;
  readonly traceparent: string | null;
  readonly occurredAt: Date;
}

export const sealEvent = (entry: EventToSeal): SealedEvent => {
  const { type: name, ...data } = entry.event;
  const schema = envelopeSchemaOf(name);
  const { eventType } = eventCatalogue[name];
  const payload = encodeEnvelope(schema, {
    id: entry.eventId,
    type: eventType,
    source: entry.source,
    ...entry.stream,
    aggregateVersion: entry.version,
    time: entry.occurredAt.getTime(),
    correlationId: entry.context.correlationId,
    causationId: entry.context.requestId,
    traceparent: entry.context.traceparent,
    data,
  });
  return {
    eventId: entry.eventId,
    eventType,
    source: entry.source,
    stream: entry.stream,
    version: entry.version,
    partitionKey: partitionKeyOf(entry.event),
    requestId: entry.context.requestId,
    schemaFingerprint: Buffer.from(schema.fingerprint, 'hex'),
    payload,
    contentHash: contentHash({ requestId: entry.context.requestId, eventType, payload }),
    traceparent: entry.context.traceparent,
    occurredAt: entry.occurredAt,
  };
};
