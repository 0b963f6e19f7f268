import { v7 as uuidv7 } from 'uuid';
import type { DomainEvent } from '../../src/domain/domain-event.ts';
import { productId } from '../../src/domain/ids.ts';
import { loadStreams } from '../../src/journal/load-streams.ts';
import { type SealedEvent, type StreamId, sealEvent } from '../../src/journal/seal-event.ts';
import { createWriterSchemas } from '../../src/journal/writer-schemas.ts';
import type { Database } from '../../src/postgres/database.ts';

/** An event as a command would seal it, for specs that write the journal directly. */
export const sealed = (
  stream: StreamId,
  version: number,
  event: DomainEvent,
  occurredAt = new Date(),
): SealedEvent => {
  const eventId = uuidv7();
  return sealEvent({
    eventId,
    stream,
    version,
    event,
    occurredAt,
    source: 'spec',
    context: { requestId: eventId, correlationId: eventId, traceparent: null },
  });
};

/** A stream of views is no stream of one fact here: specs about order need several versions of one aggregate. */
export const viewOf = (aggregateId: string, version: number, occurredAt?: Date): SealedEvent =>
  sealed(
    { aggregateType: 'ProductView', aggregateId },
    version,
    { type: 'ProductViewed', productId: productId(aggregateId), userId: null },
    occurredAt,
  );

/** The events of a stream, as a command would load them. */
export const eventsOf = async (
  db: Database,
  stream: StreamId,
): Promise<readonly DomainEvent[] | undefined> => {
  const [loaded] = await loadStreams(db, createWriterSchemas(db), [{ ...stream, foldVersion: 1 }]);
  return loaded?.events;
};
