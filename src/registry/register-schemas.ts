import { envelopeSchemas, subjectOf } from '../avro/envelope-schema.ts';
import { eventCatalogue } from '../event-catalogue/event-catalogue.ts';
import type { SchemaRegistry } from './schema-registry.ts';

export interface RegisteredSchema {
  readonly subject: string;
  readonly schemaId: number;
  readonly fullName: string;
}

/** Registers what this version writes. Doing it again changes nothing. */
export const registerSchemas = (registry: SchemaRegistry): Promise<readonly RegisteredSchema[]> =>
  Promise.all(
    [...envelopeSchemas.values()].map(async (schema) => {
      const subject = subjectOf(eventCatalogue[schema.eventName].topic, schema.fullName);
      return { subject, schemaId: await registry.idOf(subject, schema.json), fullName: schema.fullName };
    }),
  );
