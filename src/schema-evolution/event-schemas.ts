import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type AvroRecord, composeEnvelope, envelopeFile, fullNameOf } from '../avro/envelope-schema.ts';
import { parseSchema } from '../avro/parse-schema.ts';
import { eventCatalogue, eventNames } from '../event-catalogue/event-catalogue.ts';
import type { TopicName } from '../event-catalogue/topic-name.ts';
import { topicOf, upcasters } from '../event-catalogue/upcasters.ts';
import { type Finding, finding } from './finding.ts';
import { parseRecord, type RecordNode } from './schema-model.ts';
import { recordNameFor } from './schema-rules.ts';

/** An event type and the file that describes its data. */
export interface EventSchemaFile {
  readonly eventType: string;
  readonly file: string;
  readonly topic: TopicName;
  /** Whether it is still written, or only read through an upcaster. */
  readonly isWritten: boolean;
}

export const eventSchemaFiles: readonly EventSchemaFile[] = [
  ...eventNames.map((name) => {
    const { eventType, schemaFile, topic } = eventCatalogue[name];
    return { eventType, file: schemaFile, topic, isWritten: true };
  }),
  ...upcasters.map(({ from, schemaFile }) => ({
    eventType: from,
    file: schemaFile,
    topic: topicOf(from),
    isWritten: false,
  })),
];

/** The complete schema of one event type, as it goes over the wire. */
export interface EventSchema extends EventSchemaFile {
  readonly fullName: string;
  readonly json: string;
  readonly envelope: RecordNode;
  readonly data: RecordNode;
}

export interface EventSchemas {
  readonly schemas: readonly EventSchema[];
  /** The shared part; missing when its file cannot be read. */
  readonly envelope: RecordNode | undefined;
  /** Files that are no schemas. */
  readonly findings: readonly Finding[];
}

interface SchemaFile {
  readonly record: AvroRecord;
  readonly model: RecordNode;
}

/** The schemas as they are in the working tree, including the ones that nobody could run with. */
export const readEventSchemas = (avroDir: string): EventSchemas => {
  const findings: Finding[] = [];
  const read = (file: string): SchemaFile | undefined => {
    try {
      const json = readFileSync(join(avroDir, file), 'utf8');
      return { model: parseRecord(json), record: JSON.parse(json) as AvroRecord };
    } catch (error) {
      findings.push(unreadable(file, error));
      return undefined;
    }
  };
  const envelope = read(envelopeFile);
  const schemas = eventSchemaFiles.flatMap((source): readonly EventSchema[] => {
    const data = read(source.file);
    if (!envelope || !data) return [];
    const composed = composeEnvelope(envelope.record, data.record);
    const json = JSON.stringify(composed);
    return [
      { ...source, fullName: fullNameOf(composed), json, envelope: parseRecord(json), data: data.model },
    ];
  });
  return {
    schemas,
    envelope: envelope?.model,
    findings: [...findings, ...schemas.flatMap(misnamed)],
  };
};

const unreadable = (file: string, error: unknown): Finding =>
  finding({
    schema: file,
    path: '',
    rule: 'unreadable',
    what: `the file is no Avro record: ${(error as Error).message}`,
    instead: 'write it as the other files in avro are written',
  });

const misnamed = ({ eventType, file, data }: EventSchema): readonly Finding[] =>
  data.fullName === recordNameFor(eventType)
    ? []
    : [
        finding({
          schema: data.fullName,
          path: '',
          rule: 'name',
          what: `${file} describes ${eventType} under another name`,
          instead: `call the record ${recordNameFor(eventType)}: the name follows from the event type`,
        }),
      ];

/** What avsc says of a schema that our own rules have let through. */
export const avscComplaint = (json: string): string | undefined => {
  try {
    parseSchema(json);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
};
