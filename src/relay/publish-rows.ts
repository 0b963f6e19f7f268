import { frame } from '../avro/confluent-frame.ts';
import { subjectOf } from '../avro/envelope-schema.ts';
import type { TopicName } from '../event-catalogue/topic-name.ts';
import { topicOf } from '../event-catalogue/upcasters.ts';
import type { WriterSchemas } from '../journal/writer-schemas.ts';
import type { OutgoingRecord, RecordProducer } from '../kafka/record-producer.ts';
import type { SchemaRegistry } from '../registry/schema-registry.ts';
import type { OutboxRow } from './read-outbox-delta.ts';

export interface PublishPorts {
  readonly producer: RecordProducer;
  readonly registry: SchemaRegistry;
  readonly schemas: WriterSchemas;
  readonly physicalTopic: (topic: TopicName) => string;
}

/** Sends a page, row by row in its order within each topic, and resolves when the brokers have all of it. */
export const publishRows = async (ports: PublishPorts, rows: readonly OutboxRow[]): Promise<void> => {
  const batches = new Map<string, OutgoingRecord[]>();
  for (const row of rows) {
    const topic = topicOf(row.eventType);
    const record = { key: row.partitionKey, value: frame(await schemaIdFor(ports, topic, row), row.payload) };
    const physical = ports.physicalTopic(topic);
    const batch = batches.get(physical);
    if (batch) batch.push(record);
    else batches.set(physical, [record]);
  }
  await ports.producer.send(batches);
};

const schemaIdFor = async (
  { registry, schemas }: PublishPorts,
  topic: TopicName,
  row: OutboxRow,
): Promise<number> => {
  const writer = await schemas.find(row.schemaFingerprint);
  return registry.idOf(subjectOf(topic, writer.fullName), writer.json);
};
