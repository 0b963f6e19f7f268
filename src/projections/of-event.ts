import type { Envelope } from '../avro/envelope.ts';
import { type EventName, type EventOf, eventCatalogue } from '../event-catalogue/event-catalogue.ts';

/** Keeps the envelopes of one event, which TypeScript then knows to carry its data. */
export const ofEvent =
  <Name extends EventName>(name: Name) =>
  (
    envelope: Envelope,
  ): envelope is Envelope<Omit<EventOf<Name>, 'type'> & Readonly<Record<string, unknown>>> =>
    envelope.type === eventCatalogue[name].eventType;
