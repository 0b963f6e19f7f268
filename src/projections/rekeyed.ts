import type { EventEnvelope } from '../avro/envelope.ts';
import type { CataloguedEvent } from '../event-catalogue/event-catalogue.ts';
import type { DerivedEvent } from '../streams/ports.ts';
import type { Rekeyed, Repartition } from '../streams/repartition.ts';
import { ofEvent } from './of-event.ts';

const isRekeyed = ofEvent('RecordRekeyed');

/** How streams of envelopes get to another key: as an event of the catalogue, with the value as JSON in it. */
export const rekeyedThrough = (topic: string): Repartition => ({
  topic,
  read: (value) => {
    const envelope = value as EventEnvelope;
    if (!isRekeyed(envelope)) throw new Error(`${envelope.type} is no record on its way to another key`);
    const { through, key, value: json } = envelope.data;
    return { through, key, value: JSON.parse(json) as unknown };
  },
});

/** A derived event as the catalogue knows it: what `to` makes is one already, what is on its way to another key becomes one. */
export const cataloguedEvent = ({ value }: DerivedEvent): CataloguedEvent =>
  isForAnotherKey(value)
    ? { type: 'RecordRekeyed', through: value.through, key: value.key, value: JSON.stringify(value.value) }
    : (value as CataloguedEvent);

const isForAnotherKey = (value: unknown): value is Rekeyed =>
  typeof value === 'object' && value !== null && 'through' in value && !('type' in value);
