import { avroDir, envelopeSchemas, pastEnvelopeSchemas, subjectOf } from '../avro/envelope-schema.ts';
import { topicOf } from '../event-catalogue/upcasters.ts';
import { readReleases } from '../schema-evolution/released-history.ts';
import type { SchemaRegistry } from './schema-registry.ts';

export interface RegisteredSchema {
  readonly subject: string;
  readonly schemaId: number;
  readonly fullName: string;
}

/**
 * Registers every schema that records may have been written with: the released ones in their order, then what this
 * version writes. Otherwise a new registry would meet an old schema only when the relay publishes an old row, and take
 * it for the newest. Doing it again changes nothing.
 */
export const registerSchemas = (registry: SchemaRegistry): Promise<readonly RegisteredSchema[]> => {
  const releases = Map.groupBy(readReleases(avroDir), ({ fullName }) => fullName);
  const released = (fullName: string): readonly string[] =>
    (releases.get(fullName) ?? []).map(({ json }) => json);
  const subjects = [
    ...[...envelopeSchemas.values()].map((schema) => ({
      schema,
      versions: new Set([...released(schema.fullName), schema.json]),
    })),
    ...pastEnvelopeSchemas.map((schema) => ({ schema, versions: new Set(released(schema.fullName)) })),
  ];
  return Promise.all(
    subjects
      .filter(({ versions }) => versions.size > 0)
      .map(async ({ schema: { eventType, fullName }, versions }) => {
        const subject = subjectOf(topicOf(eventType), fullName);
        let schemaId = 0;
        for (const json of versions) schemaId = await registry.idOf(subject, json);
        return { subject, schemaId, fullName };
      }),
  );
};
