import { frameLength, schemaIdWithin } from '../avro/confluent-frame.ts';
import { DecodingError } from '../avro/decode-envelope.ts';
import type { EventReader } from '../avro/read-envelope.ts';
import type { RecordDecoder } from '../streams/ports.ts';
import {
  type DecodedBatch,
  type DecodedRecord,
  type RawBatch,
  type RawRecord,
  type UndecodableRecord,
  UnsupportedRecords,
} from '../streams/record.ts';
import { EventReaders, NoReader } from './event-readers.ts';
import type { SchemaRegistry } from './schema-registry.ts';
import { uuidOf } from './uuid.ts';

/**
 * Decodes a batch in one go: the registry is asked once per schema, and records are decoded where they lie. When the
 * registry does not answer, the batch is decoded up to the first record that needs it.
 */
export const createEnvelopeDecoder = (
  registry: SchemaRegistry,
  options: { readonly clock?: () => number } = {},
): RecordDecoder => {
  const readers = new EventReaders(registry, options.clock);
  return {
    decode: async (batch) => {
      const decoded: Decoded[] = [];
      while (decodeKnown(batch.records, decoded, readers) < batch.records.length) {
        const { damage } = batch.records[decoded.length] as RawRecord;
        if (damage) return stoppedAfter(decoded, batch, damage);
        const trouble = await readers.ask(schemaIdsFrom(batch.records, decoded.length));
        if (trouble && !isNextKnown(batch.records, decoded.length, readers)) {
          return stoppedAfter(decoded, batch, trouble);
        }
      }
      const { topic, partition, reading, fromOffset, nextOffset } = batch;
      return { topic, partition, reading, fromOffset, records: decoded, nextOffset };
    },
  };
};

type Decoded = DecodedRecord | UndecodableRecord;

/** Decodes on until a record's schema is not known yet; answers with how many records are decoded then. */
const decodeKnown = (records: readonly RawRecord[], decoded: Decoded[], readers: EventReaders): number => {
  for (let index = decoded.length; index < records.length; index++) {
    const raw = records[index] as RawRecord;
    try {
      const reader = readers.find(schemaIdOf(raw));
      if (reader === undefined) return index;
      decoded.push(decodeRecord(raw, reader));
    } catch (error) {
      if (error instanceof UnsupportedRecords) return index;
      // Nothing is asked here: whatever was thrown is about the bytes, and would be thrown again.
      decoded.push({ raw, error: error as Error });
    }
  }
  return records.length;
};

const decodeRecord = (raw: RawRecord, reader: EventReader | NoReader): DecodedRecord => {
  if (reader instanceof NoReader) throw reader.reason;
  const value = reader(raw.bytes, raw.valueStart + frameLength, raw.valueEnd);
  const id = uuidOf(value.id);
  if (id === undefined) throw new DecodingError(`The event's id is no UUID: ${value.id.slice(0, 64)}`);
  return { raw, key: raw.key?.toString('utf8') ?? null, value, id, timeMs: value.time };
};

const schemaIdOf = (raw: RawRecord): number => {
  if (raw.damage) throw raw.damage;
  if (raw.valueStart < 0) throw new DecodingError('The record has no value');
  return schemaIdWithin(raw.bytes, raw.valueStart, raw.valueEnd);
};

/** Asked for at once, at most. */
const schemaIdsMax = 1000;

/** What the rest of the batch needs, so that it is asked for at once. */
const schemaIdsFrom = (records: readonly RawRecord[], start: number): ReadonlySet<number> => {
  const ids = new Set<number>();
  for (let index = start; index < records.length && ids.size < schemaIdsMax; index++) {
    try {
      ids.add(schemaIdOf(records[index] as RawRecord));
    } catch {
      // No schema is needed to find it undecodable.
    }
  }
  return ids;
};

const isNextKnown = (records: readonly RawRecord[], index: number, readers: EventReaders): boolean =>
  readers.find(schemaIdOf(records[index] as RawRecord)) !== undefined;

const stoppedAfter = (decoded: readonly Decoded[], batch: RawBatch, stopped: Error): DecodedBatch => {
  const { topic, partition, reading, fromOffset } = batch;
  const next = batch.records[decoded.length] as RawRecord;
  return { topic, partition, reading, fromOffset, records: decoded, nextOffset: next.offset, stopped };
};
