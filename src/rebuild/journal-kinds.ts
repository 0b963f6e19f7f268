import { readerSchemaOf } from '../avro/envelope-schema.ts';
import { type EventReader, eventReaderOf } from '../avro/read-envelope.ts';
import { type EventName, eventCatalogue, eventNames } from '../event-catalogue/event-catalogue.ts';
import type { TopicName } from '../event-catalogue/topic-name.ts';
import { topicOf, upcasters } from '../event-catalogue/upcasters.ts';
import type { WriterSchemas } from '../journal/writer-schemas.ts';

/** What rows of one writer's schema have in common. */
export interface JournalKind {
  /** The topic as the broker calls it. */
  readonly topic: string;
  readonly read: EventReader;
}

/** Every event type, of today or of the past, that goes to one of these topics. */
export const eventTypesOf = (
  topics: readonly string[],
  physicalTopic: (name: TopicName) => string,
): readonly string[] => {
  const today = eventNames.map((name: EventName) => eventCatalogue[name].eventType);
  const past = upcasters.map(({ from }) => from);
  return [...today, ...past].filter((type) => topics.includes(physicalTopic(topicOf(type))));
};

/** How to read what was written with which schema, and where it belongs; each schema is looked up once. */
export class JournalKinds {
  readonly #schemas: WriterSchemas;
  readonly #physicalTopic: (name: TopicName) => string;
  readonly #known = new Map<string, JournalKind>();

  constructor(schemas: WriterSchemas, physicalTopic: (name: TopicName) => string) {
    this.#schemas = schemas;
    this.#physicalTopic = physicalTopic;
  }

  /** By the fingerprint as text; undefined where it has to be learned first. */
  find(fingerprint: string): JournalKind | undefined {
    return this.#known.get(fingerprint);
  }

  async learn(fingerprint: string): Promise<JournalKind> {
    const writer = await this.#schemas.find(Buffer.from(fingerprint, 'latin1'));
    const schema = readerSchemaOf(writer.type.name ?? '');
    if (!schema) throw new Error(`${writer.fullName} in the journal is no envelope that this version knows`);
    const kind = {
      topic: this.#physicalTopic(topicOf(schema.eventType)),
      read: eventReaderOf(writer.type),
    };
    this.#known.set(fingerprint, kind);
    return kind;
  }
}
