import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import avsc, { type Schema, type Type } from 'avsc';
import { type EventName, eventCatalogue, eventNames } from '../event-catalogue/event-catalogue.ts';
import type { TopicName } from '../event-catalogue/topic-name.ts';
import { projectRoot } from '../project-root.ts';

interface AvroField {
  readonly name: string;
  readonly doc?: string;
  readonly type: Schema;
  readonly default?: unknown;
}
interface AvroRecord {
  readonly type: 'record';
  readonly namespace: string;
  readonly name: string;
  readonly doc: string;
  readonly fields: readonly AvroField[];
}

/** The schema one event type is written with, and everything that follows from it. */
export interface EnvelopeSchema {
  readonly eventName: EventName;
  readonly fullName: string;
  readonly json: string;
  readonly type: Type;
  /** SHA-256 of the schema's canonical form, in hexadecimal: how the journal remembers the writer's schema. */
  readonly fingerprint: string;
}

const readSchemaFile = (file: string): AvroRecord =>
  JSON.parse(readFileSync(join(projectRoot, 'avro', file), 'utf8')) as AvroRecord;

/** Each event type gets a record of its own, so that registries and other tools see whole, typed messages. */
const compose = (envelope: AvroRecord, data: AvroRecord): AvroRecord => ({
  type: 'record',
  namespace: data.namespace,
  name: `${data.name}Envelope`,
  doc: data.doc,
  fields: [...envelope.fields, { name: 'data', doc: 'The event itself', type: data as unknown as Schema }],
});

/** Unions decode to the bare value, whatever their branches are: the shape of an event does not depend on its schema. */
export const parseSchema = (json: string): Type =>
  avsc.Type.forSchema(JSON.parse(json) as Schema, { wrapUnions: 'never' });

export const fingerprintOf = (type: Type): string => type.fingerprint('sha256').toString('hex');

const build = (eventName: EventName): EnvelopeSchema => {
  const record = compose(
    readSchemaFile('envelope.avsc'),
    readSchemaFile(eventCatalogue[eventName].schemaFile),
  );
  const json = JSON.stringify(record);
  const type = parseSchema(json);
  return {
    eventName,
    fullName: `${record.namespace}.${record.name}`,
    json,
    type,
    fingerprint: fingerprintOf(type),
  };
};

export const envelopeSchemas: ReadonlyMap<EventName, EnvelopeSchema> = new Map(
  eventNames.map((name) => [name, build(name)]),
);

export const envelopeSchemaOf = (eventName: EventName): EnvelopeSchema => {
  const schema = envelopeSchemas.get(eventName);
  if (!schema) throw new Error(`No envelope schema for ${eventName}`);
  return schema;
};

/** TopicRecordName: several event types share a topic, each evolves alone. */
export const subjectOf = (topic: TopicName, recordFullName: string): string => `${topic}-${recordFullName}`;
