import type { EventEnvelope } from '../avro/envelope.ts';
import { type EventName, type EventOf, eventCatalogue } from '../event-catalogue/event-catalogue.ts';
import type { StreamOf } from '../streams/kstream.ts';
import { named } from '../streams/step-name.ts';

/** A topic of the catalogue, as this system's broker calls it. */
export type EnvelopeStream = StreamOf<EventEnvelope>;

/** An envelope that TypeScript knows to carry one event's data. */
export type EnvelopeOf<Name extends EventName> = EventEnvelope<
  Omit<EventOf<Name>, 'type'> & Readonly<Record<string, unknown>>
>;

/** Keeps the envelopes of one event. Steps made of it have the event's name: what was handled is shown by it. */
export const ofEvent = <Name extends EventName>(
  name: Name,
): ((envelope: EventEnvelope) => envelope is EnvelopeOf<Name>) => {
  const { eventType } = eventCatalogue[name];
  const keep = (envelope: EventEnvelope): envelope is EnvelopeOf<Name> => envelope.type === eventType;
  return named(name, keep);
};
