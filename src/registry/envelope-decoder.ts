import type { Type } from 'avsc';
import { schemaIdOf } from '../avro/confluent-frame.ts';
import { DecodingError } from '../avro/decode-envelope.ts';
import type { DecodedBatch, PoisonRecord, RecordDecoder } from '../streams/ports.ts';
import type { RawBatch, RawRecord } from '../streams/record-source.ts';
import type { StreamRecord } from '../streams/topology.ts';
import { isUnreadable, readFramed } from './read-framed-envelope.ts';
import { type SchemaRegistry, UnknownSchemaId } from './schema-registry.ts';

/** Decodes a batch: the registry is asked once per schema id, the records themselves are decoded without waiting. */
export const createEnvelopeDecoder = (registry: SchemaRegistry): RecordDecoder => ({
  decode: async (batch) => {
    const writers = await resolveWriters(registry, batch);
    const records: StreamRecord<unknown>[] = [];
    const poison: PoisonRecord[] = [];
    for (const record of batch.records) {
      try {
        records.push(decodeRecord(batch, record, writers));
      } catch (error) {
        if (!isUnreadable(error)) throw error;
        poison.push({ record, error });
      }
    }
    return { records, poison } satisfies DecodedBatch;
  },
});

type Writers = ReadonlyMap<number, Type | UnknownSchemaId>;

const resolveWriters = async (registry: SchemaRegistry, batch: RawBatch): Promise<Writers> => {
  const ids = new Set(batch.records.flatMap((record) => readableSchemaId(record)));
  const writers = await Promise.all(
    [...ids].map(async (id): Promise<[number, Type | UnknownSchemaId]> => {
      try {
        return [id, await registry.writerType(id)];
      } catch (error) {
        if (error instanceof UnknownSchemaId) return [id, error];
        throw error;
      }
    }),
  );
  return new Map(writers);
};

const readableSchemaId = ({ value }: RawRecord): readonly number[] => {
  try {
    return value ? [schemaIdOf(value)] : [];
  } catch {
    return [];
  }
};

const decodeRecord = (batch: RawBatch, record: RawRecord, writers: Writers): StreamRecord<unknown> => {
  if (!record.value) throw new DecodingError('The record has no value');
  const writer = writers.get(schemaIdOf(record.value));
  if (!writer || writer instanceof UnknownSchemaId)
    throw writer ?? new DecodingError('The record has no schema');
  return {
    topic: batch.topic,
    partition: batch.partition,
    offset: record.offset,
    key: record.key?.toString('utf8') ?? null,
    value: readFramed(record.value, writer),
  };
};
