import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Schema, Type } from 'avsc';
import { type EventName, eventCatalogue, eventNames } from '../event-catalogue/event-catalogue.ts';
import type { TopicName } from '../event-catalogue/topic-name.ts';
import { eventNameToday, upcasters } from '../event-catalogue/upcasters.ts';
import { projectRoot } from '../project-root.ts';
import { fingerprintOf, parseSchema } from './parse-schema.ts';

export { fingerprintOf, parseSchema };

interface AvroField {
  readonly name: string;
  readonly doc?: string;
  readonly type: Schema;
  readonly default?: unknown;
}
export interface AvroRecord {
  readonly type: 'record';
  readonly namespace: string;
  readonly name: string;
  readonly doc: string;
  readonly fields: readonly AvroField[];
}

/** The schema one event type is written with, and everything that follows from it. */
export interface EnvelopeSchema {
  /** What the event is called today, also where its type is one of the past. */
  readonly eventName: EventName;
  readonly eventType: string;
  readonly fullName: string;
  readonly json: string;
  readonly type: Type;
  /** SHA-256 of the schema's canonical form, in hexadecimal: how the journal remembers the writer's schema. */
  readonly fingerprint: string;
}

export const avroDir = join(projectRoot, 'avro');
export const envelopeFile = 'envelope.avsc';

/** Each event type gets a record of its own, so that registries and other tools see whole, typed messages. */
export const composeEnvelope = (envelope: AvroRecord, data: AvroRecord): AvroRecord => ({
  type: 'record',
  namespace: data.namespace,
  name: `${data.name}Envelope`,
  doc: data.doc,
  fields: [...envelope.fields, { name: 'data', doc: 'The event itself', type: data as unknown as Schema }],
});

export const fullNameOf = ({ namespace, name }: AvroRecord): string => `${namespace}.${name}`;

const readSchemaFile = (file: string): AvroRecord =>
  JSON.parse(readFileSync(join(avroDir, file), 'utf8')) as AvroRecord;

const once = <T>(make: () => T): (() => T) => {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
};

/** Read when it is first needed: `millrace schemas check` must run, and say why, on schemas that cannot be used. */
const lazySchema = (eventType: string, eventName: EventName, file: string): EnvelopeSchema => {
  const record = once(() => composeEnvelope(readSchemaFile(envelopeFile), readSchemaFile(file)));
  const json = once(() => JSON.stringify(record()));
  const type = once(() => parseSchema(json()));
  const fingerprint = once(() => fingerprintOf(type()));
  return {
    eventName,
    eventType,
    get fullName() {
      return fullNameOf(record());
    },
    get json() {
      return json();
    },
    get type() {
      return type();
    },
    get fingerprint() {
      return fingerprint();
    },
  };
};

/** What this version writes with. */
export const envelopeSchemas: ReadonlyMap<EventName, EnvelopeSchema> = new Map(
  eventNames.map((name) => {
    const { eventType, schemaFile } = eventCatalogue[name];
    return [name, lazySchema(eventType, name, schemaFile)];
  }),
);

/** What earlier versions wrote with, where a new event type has replaced theirs: only read any more. */
export const pastEnvelopeSchemas: readonly EnvelopeSchema[] = upcasters.map(({ from, schemaFile }) =>
  lazySchema(from, eventNameToday(from), schemaFile),
);

export const envelopeSchemaOf = (eventName: EventName): EnvelopeSchema => {
  const schema = envelopeSchemas.get(eventName);
  if (!schema) throw new Error(`No envelope schema for ${eventName}`);
  return schema;
};

const byRecordName = once(
  () =>
    new Map([...envelopeSchemas.values(), ...pastEnvelopeSchemas].map((schema) => [schema.fullName, schema])),
);

/** The schema that this version reads such a record with. */
export const readerSchemaOf = (recordFullName: string): EnvelopeSchema | undefined =>
  byRecordName().get(recordFullName);

/** TopicRecordName: several event types share a topic, each evolves alone. */
export const subjectOf = (topic: TopicName, recordFullName: string): string => `${topic}-${recordFullName}`;
