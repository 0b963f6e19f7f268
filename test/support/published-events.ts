import { frame } from '../../src/avro/confluent-frame.ts';
import { subjectOf } from '../../src/avro/envelope-schema.ts';
import { topicOf } from '../../src/event-catalogue/upcasters.ts';
import type { SealedEvent } from '../../src/journal/seal-event.ts';
import type { WriterSchemas } from '../../src/journal/writer-schemas.ts';
import type { SchemaRegistry } from '../../src/registry/schema-registry.ts';
import type { Workspace } from './stack.ts';
import { writeTopic } from './topic-reader.ts';

/** Puts events into their topics as a relay would, whether the journal has them or not. */
export const publishEvents = async (
  workspace: Workspace,
  { registry, schemas }: { registry: SchemaRegistry; schemas: WriterSchemas },
  events: readonly SealedEvent[],
  at = new Date(),
): Promise<void> => {
  for (const [topic, some] of Map.groupBy(events, ({ eventType }) => topicOf(eventType))) {
    const messages: { key: string; value: Buffer; timestamp: string }[] = [];
    for (const { schemaFingerprint, payload, partitionKey } of some) {
      const { fullName, json } = await schemas.find(schemaFingerprint);
      const schemaId = await registry.idOf(subjectOf(topic, fullName), json);
      messages.push({ key: partitionKey, value: frame(schemaId, payload), timestamp: String(at.getTime()) });
    }
    await writeTopic(workspace.endpoints.kafkaBrokers, workspace.unique(topic), messages);
  }
};
