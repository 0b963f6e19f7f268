import { zstdCompressSync } from 'node:zlib';
import encodeRecord from 'kafkajs/src/protocol/recordBatch/record/v0/index.js';
import batchOfKafkajs from 'kafkajs/src/protocol/recordBatch/v0/index.js';
import {
  attributesAt,
  batchHeaderSize,
  checksumAt,
  checksumFrom,
  lengthAt,
  lengthCountsFrom,
} from '../../src/kafka/batch-layout.ts';
import { crc32c } from '../../src/kafka/crc32c.ts';

export interface SpecRecord {
  readonly offsetDelta: number;
  readonly timestampDelta?: number;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers?: Readonly<Record<string, Buffer | readonly Buffer[]>>;
}

export interface SpecBatch {
  readonly firstOffset: number;
  readonly lastOffsetDelta?: number;
  readonly firstTimestamp?: number;
  readonly maxTimestamp?: number;
  readonly packed?: 'gzip' | 'zstd' | undefined;
  readonly transactional?: boolean;
  readonly producerId?: number;
  readonly records: readonly SpecRecord[];
}

/** A batch as a broker would send it, written by kafkajs. */
export const encodeBatch = async (batch: SpecBatch): Promise<Buffer> => {
  const { records, packed, producerId = -1, firstTimestamp = 1_790_000_000_000, ...fields } = batch;
  const encoder = await batchOfKafkajs.RecordBatch({
    ...fields,
    firstTimestamp,
    maxTimestamp: batch.maxTimestamp ?? firstTimestamp,
    compression: packed === 'gzip' ? 1 : 0,
    producerId: String(producerId),
    lastOffsetDelta: batch.lastOffsetDelta ?? records.at(-1)?.offsetDelta ?? 0,
    records: records.map((record) => encodeRecord({ ...record, timestampDelta: record.timestampDelta ?? 0 })),
  });
  const bytes = Buffer.from(encoder.buffer);
  return packed === 'zstd' ? packedWithZstd(bytes) : bytes;
};

/** Numbered records without anything special about them. */
export const encodeNumbered = (firstOffset: number, count: number, valueBytes = 100): Promise<Buffer> =>
  encodeBatch({
    firstOffset,
    records: Array.from({ length: count }, (_, offsetDelta) => ({
      offsetDelta,
      key: Buffer.from(`key-${firstOffset + offsetDelta}`),
      value: Buffer.alloc(valueBytes, firstOffset + offsetDelta),
    })),
  });

/** What a transaction's end looks like in a topic. */
export const encodeMarker = async (
  firstOffset: number,
  producerId: number,
  outcome: 'commit' | 'abort',
): Promise<Buffer> => {
  const key = Buffer.from([0, 0, 0, outcome === 'commit' ? 1 : 0]);
  const marker = { offsetDelta: 0, key, value: Buffer.alloc(6) };
  const bytes = await encodeBatch({ firstOffset, producerId, transactional: true, records: [marker] });
  return withAttributes(bytes, (attributes) => attributes | 0x20);
};

/** The same batch with other attributes, and the checksum right again. */
export const withAttributes = (batch: Buffer, change: (attributes: number) => number): Buffer => {
  const changed = Buffer.from(batch);
  changed.writeInt16BE(change(changed.readInt16BE(attributesAt)), attributesAt);
  return withChecksum(changed);
};

export const withChecksum = (batch: Buffer): Buffer => {
  batch.writeUInt32BE(crc32c(batch, checksumFrom), checksumAt);
  return batch;
};

const packedWithZstd = (batch: Buffer): Buffer => {
  const packed = Buffer.concat([
    batch.subarray(0, batchHeaderSize),
    zstdCompressSync(batch.subarray(batchHeaderSize)),
  ]);
  packed.writeInt32BE(packed.length - lengthCountsFrom, lengthAt);
  return withAttributes(packed, (attributes) => attributes | 4);
};
