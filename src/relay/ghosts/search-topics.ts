import { frameLength, schemaIdOf } from '../../avro/confluent-frame.ts';
import { DecodingError } from '../../avro/decode-envelope.ts';
import type { StoredRecord, TopicReader } from '../../kafka/topic-reader.ts';
import type { Database } from '../../postgres/database.ts';
import { EventReaders, NoReader } from '../../registry/event-readers.ts';
import type { SchemaRegistry } from '../../registry/schema-registry.ts';
import { uuidOf } from '../../registry/uuid.ts';
import { awaitWriters } from './await-writers.ts';
import { findMissing, type PublishedEvent, storeGhosts } from './ghost-event.ts';

/** Records that are looked up together. */
const lookedUpTogetherMax = 1000;
/** A transaction that takes longer than this is a trouble of its own. */
const writersWaitMaxMs = 60_000;

export interface SearchPorts {
  readonly database: Database;
  readonly registry: SchemaRegistry;
  /** The event topics, as the broker calls them. */
  readonly topics: readonly string[];
  /** Opened for each search and closed after it. */
  readonly openReader: () => Promise<TopicReader>;
}

export interface SearchProgress {
  readonly done: number;
  readonly total: number;
}

export interface SearchRequest {
  /** Only records that Kafka got from then on; all of them when it is missing. */
  readonly from?: Date | undefined;
  /** Called after every few records; a search ends with what it throws. */
  readonly onProgress?: (progress: SearchProgress) => void | Promise<void>;
}

export interface SearchReport {
  readonly records: number;
  /** They carry no event that this version can read: whether the journal has it cannot be told. */
  readonly unreadable: number;
  /** Ghosts that were not known before. */
  readonly found: number;
}

/**
 * Looks every record of the topics up in the journal and stores those whose event is not there. It may be broken off at
 * any time and begun again: what is stored twice is stored once.
 */
export const searchTopics = async (
  { database, registry, topics, openReader }: SearchPorts,
  { from, onProgress }: SearchRequest,
): Promise<SearchReport> => {
  const readers = new EventReaders(registry);
  const reader = await openReader();
  let records = 0;
  let unreadable = 0;
  let found = 0;
  try {
    const ranges = await reader.ranges(topics, from && { sinceMs: from.getTime() });
    const total = ranges.reduce((sum, { start, end }) => sum + end - start, 0);
    for (const { topic, partition, start, end } of ranges) {
      for await (const fetched of reader.read({ topic, partition, start, end })) {
        for (const some of inSlices(fetched, lookedUpTogetherMax)) {
          await learnSchemas(readers, some);
          const events = some
            .map((record) => readEvent(readers, { topic, partition, record }))
            .filter((event) => event !== undefined);
          records += some.length;
          unreadable += some.length - events.length;
          found += await storeMissing(database, events);
          await onProgress?.({ done: records, total });
        }
      }
    }
  } finally {
    await reader.close();
  }
  return { records, unreadable, found };
};

const inSlices = function* <T>(all: readonly T[], size: number): Generator<readonly T[]> {
  for (let start = 0; start < all.length; start += size) yield all.slice(start, start + size);
};

/** Fails when the registry does not answer: then nothing is known about the records. */
const learnSchemas = async (readers: EventReaders, records: readonly StoredRecord[]): Promise<void> => {
  const ids = new Set(records.map(schemaIdIn).filter((id) => id !== undefined));
  const trouble = await readers.ask(ids);
  if (trouble) throw new Error('The registry does not tell how to read the topics', { cause: trouble });
};

const schemaIdIn = ({ value, damage }: StoredRecord): number | undefined => {
  try {
    return value && !damage ? schemaIdOf(value) : undefined;
  } catch (error) {
    if (error instanceof DecodingError) return undefined;
    throw error;
  }
};

const nul = '\0';

/** Nothing for a record that no journal of this version can have written. */
const readEvent = (
  readers: EventReaders,
  { topic, partition, record }: { topic: string; partition: number; record: StoredRecord },
): PublishedEvent | undefined => {
  const schemaId = schemaIdIn(record);
  const reader = schemaId === undefined ? undefined : readers.find(schemaId);
  if (!record.value || !reader || reader instanceof NoReader) return undefined;
  try {
    const { id, type, aggregateType, aggregateId, aggregateVersion } = reader(record.value, frameLength);
    const eventId = uuidOf(id);
    // PostgreSQL has no text with this character: the journal cannot have it either.
    if (eventId === undefined || `${aggregateType}${aggregateId}`.includes(nul)) return undefined;
    return {
      eventId,
      eventType: type,
      aggregateType,
      aggregateId,
      aggregateVersion,
      topic,
      partition,
      offset: record.offset,
      recordedAt: new Date(record.timestampMs),
    };
  } catch {
    // Whatever a reader throws is about the bytes.
    return undefined;
  }
};

/** Nothing is called a ghost that a transaction under way may have written. */
const storeMissing = async (database: Database, events: readonly PublishedEvent[]): Promise<number> => {
  if (events.length === 0) return 0;
  const missing = await findMissing(database, events);
  if (missing.length === 0) return 0;
  await awaitWriters(database, { waitMaxMs: writersWaitMaxMs });
  return storeGhosts(database, missing);
};
