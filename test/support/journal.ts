import { v7 as uuidv7 } from 'uuid';
import type { DomainEvent } from '../../src/domain/domain-event.ts';
import { productId } from '../../src/domain/ids.ts';
import { type SealedEvent, type StreamId, sealEvent } from '../../src/journal/seal-event.ts';

/** An event as a command would seal it, for specs that write the journal directly. */
export const sealed = (stream: StreamId, version: number, event: DomainEvent): SealedEvent => {
  const eventId = uuidv7();
  return sealEvent({
    eventId,
    stream,
    version,
    event,
    occurredAt: new Date(),
    source: 'spec',
    context: { requestId: eventId, correlationId: eventId, traceparent: null },
  });
};

/** A stream of views is no stream of one fact here: specs about order need several versions of one aggregate. */
export const viewOf = (aggregateId: string, version: number): SealedEvent =>
  sealed({ aggregateType: 'ProductView', aggregateId }, version, {
    type: 'ProductViewed',
    productId: productId(aggregateId),
    userId: null,
  });
