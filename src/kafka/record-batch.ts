import { crc32c } from './crc32c.ts';
import {
  countHeaders,
  type HeaderBlock,
  type RecordHeaders,
  sizeOfHeaders,
  writeHeaders,
} from './header-block.ts';
import { sizeOfBytes, sizeOfVarint, writeBytes, writeVarint } from './wire-format.ts';

export interface OutgoingRecord {
  readonly key: Buffer | string | null;
  readonly value: Buffer | null;
  /** What this record shares with many others, already encoded; comes before the record's own headers. */
  readonly sharedHeaders?: HeaderBlock;
  readonly headers?: RecordHeaders;
}

/** What the broker tells repeated batches by. */
export interface ProducerState {
  readonly producerId: bigint;
  readonly producerEpoch: number;
  readonly firstSequence: number;
}

/**
 * Format version 2, the only one Kafka 4 takes:
 * base offset 8 · length 4 · leader epoch 4 · magic 1 · checksum 4 · attributes 2 · last offset delta 4 ·
 * first timestamp 8 · largest timestamp 8 · producer id 8 · producer epoch 2 · first sequence 4 · count 4 · records
 */
export const batchHeaderSize = 61;
const lengthAt = 8;
const lengthCountsFrom = 12;
const magicAt = 16;
const checksumAt = 17;
const checksumFrom = 21;
const lastOffsetDeltaAt = 23;
const firstTimestampAt = 27;
const maxTimestampAt = 35;
const producerIdAt = 43;
const producerEpochAt = 51;
const firstSequenceAt = 53;
const countAt = 57;

/** Attributes and timestamp delta of a record, one zero byte each: all records of a batch have the batch's timestamp. */
const recordPrefixSize = 2;

/** A record's size without its own length and its place in the batch, which is not known yet. */
export const sizeOfRecord = ({ key, value, headers, sharedHeaders }: OutgoingRecord): number => {
  let count = 0;
  let size = recordPrefixSize + sizeOfBytes(key) + sizeOfBytes(value);
  if (sharedHeaders) {
    count += sharedHeaders.count;
    size += sharedHeaders.bytes.length;
  }
  if (headers) {
    count += countHeaders(headers);
    size += sizeOfHeaders(headers);
  }
  return size + sizeOfVarint(count);
};

/** What a record of that size takes at that place of a batch. */
export const sizeInBatch = (recordSize: number, place: number): number => {
  const size = recordSize + sizeOfVarint(place);
  return sizeOfVarint(size) + size;
};

export interface BatchContent {
  readonly records: readonly OutgoingRecord[];
  /** Which of the records go into this batch, in order. */
  readonly positions: readonly number[];
  /** `sizeOfRecord` of each of them. */
  readonly sizes: readonly number[];
  /** The whole batch, its header included. */
  readonly bytes: number;
  readonly timestampMs: number;
}

/** Writes everything but the producer's state and the checksum, which `sealRecordBatch` adds when its turn has come. */
export const encodeRecordBatch = (content: BatchContent): Buffer => {
  const { records, positions, sizes, bytes, timestampMs } = content;
  const batch = Buffer.allocUnsafeSlow(bytes);
  batch.fill(0, 0, batchHeaderSize);
  batch.writeInt32BE(bytes - lengthCountsFrom, lengthAt);
  batch[magicAt] = 2;
  batch.writeInt32BE(positions.length - 1, lastOffsetDeltaAt);
  batch.writeBigInt64BE(BigInt(timestampMs), firstTimestampAt);
  batch.writeBigInt64BE(BigInt(timestampMs), maxTimestampAt);
  batch.writeInt32BE(positions.length, countAt);
  let at = batchHeaderSize;
  for (let place = 0; place < positions.length; place++) {
    const record = records[positions[place] as number] as OutgoingRecord;
    at = writeVarint(batch, (sizes[place] as number) + sizeOfVarint(place), at);
    at = writeRecord(batch, record, place, at);
  }
  if (at !== bytes) throw new Error(`A record batch came out at ${at} instead of ${bytes} bytes`);
  return batch;
};

const writeRecord = (batch: Buffer, record: OutgoingRecord, place: number, offset: number): number => {
  const { key, value, headers, sharedHeaders } = record;
  batch[offset] = 0;
  batch[offset + 1] = 0;
  let at = writeVarint(batch, place, offset + recordPrefixSize);
  at = writeBytes(batch, key, at);
  at = writeBytes(batch, value, at);
  at = writeVarint(batch, (sharedHeaders?.count ?? 0) + (headers ? countHeaders(headers) : 0), at);
  if (sharedHeaders) {
    batch.set(sharedHeaders.bytes, at);
    at += sharedHeaders.bytes.length;
  }
  return headers ? writeHeaders(batch, headers, at) : at;
};

export const sealRecordBatch = (batch: Buffer, state: ProducerState): void => {
  batch.writeBigInt64BE(state.producerId, producerIdAt);
  batch.writeInt16BE(state.producerEpoch, producerEpochAt);
  batch.writeInt32BE(state.firstSequence, firstSequenceAt);
  batch.writeUInt32BE(crc32c(batch, checksumFrom), checksumAt);
};
