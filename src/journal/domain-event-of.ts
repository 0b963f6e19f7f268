import type { Envelope } from '../avro/envelope.ts';
import type { DomainEvent } from '../domain/domain-event.ts';
import { eventNameOf } from '../event-catalogue/event-catalogue.ts';

/** The fact an envelope carries. The schema has checked the data, the catalogue says which event it is. */
export const domainEventOf = (envelope: Envelope): DomainEvent => {
  const name = eventNameOf(envelope.type);
  if (!name) throw new Error(`The journal has an event of the unknown type ${envelope.type}`);
  return { type: name, ...envelope.data } as unknown as DomainEvent;
};
