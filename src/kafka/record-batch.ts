import {
  batchHeaderSize,
  checksumAt,
  checksumFrom,
  countAt,
  firstSequenceAt,
  firstTimestampAt,
  lastOffsetDeltaAt,
  lengthAt,
  lengthCountsFrom,
  magicAt,
  magicOfBatches,
  maxTimestampAt,
  producerEpochAt,
  producerIdAt,
} from './batch-layout.ts';
import { crc32c } from './crc32c.ts';
import {
  countHeaders,
  type HeaderBlock,
  type RecordHeaders,
  sizeOfHeaders,
  writeHeaders,
} from './header-block.ts';
import {
  sizeOfBytes,
  sizeOfVarint,
  uuidTextSize,
  writeBytes,
  writeUuidText,
  writeVarint,
} from './wire-format.ts';

/** What many records have in common, encoded already. */
export interface RecordShape {
  /** Stands before each value. */
  readonly valuePrefix: Buffer | undefined;
  readonly sharedHeaders: HeaderBlock | undefined;
}

export interface RecordInParts {
  readonly key: Buffer | string | null;
  readonly value: Buffer | null;
  /** Where it has to go, whatever its key says; without it the key decides. */
  readonly partition?: number;
  /** What this record shares with many others, already encoded; comes before the record's own headers. */
  readonly sharedHeaders?: HeaderBlock | undefined;
  readonly headers?: RecordHeaders | undefined;
}

/** A record whose parts stand in a buffer together with others: nothing is made of it before it is written. */
export interface RecordInPlace {
  readonly bytes: Buffer;
  readonly keyStart: number;
  readonly keyEnd: number;
  readonly valueStart: number;
  readonly valueEnd: number;
  /** Where the 16 bytes begin that become the last of the shared headers, where those end with a UUID. */
  readonly uuidStart: number;
  readonly shape: RecordShape;
  readonly headers: RecordHeaders | undefined;
}

export type OutgoingRecord = RecordInParts | RecordInPlace;

/** What the broker tells repeated batches by. */
export interface ProducerState {
  readonly producerId: bigint;
  readonly producerEpoch: number;
  readonly firstSequence: number;
}

/** Attributes and timestamp delta of a record, one zero byte each: all records of a batch have the batch's timestamp. */
const recordPrefixSize = 2;

/** A record's size without its own length and its place in the batch, which is not known yet. */
export const sizeOfRecord = (record: OutgoingRecord): number => {
  const size =
    'bytes' in record
      ? sizeOfLength(record.keyEnd - record.keyStart) + sizeOfLength(sizeOfFramedValue(record))
      : sizeOfBytes(record.key) + sizeOfBytes(record.value);
  const { headers } = record;
  const shared = sharedHeadersOf(record);
  let count = 0;
  let headersSize = 0;
  if (shared) {
    count += shared.count;
    headersSize += shared.bytes.length + (shared.endsWithUuid ? uuidTextSize : 0);
  }
  if (headers) {
    count += countHeaders(headers);
    headersSize += sizeOfHeaders(headers);
  }
  return recordPrefixSize + size + sizeOfVarint(count) + headersSize;
};

const sharedHeadersOf = (record: OutgoingRecord): HeaderBlock | undefined =>
  'bytes' in record ? record.shape.sharedHeaders : record.sharedHeaders;

const sizeOfLength = (length: number): number => sizeOfVarint(length) + length;

const sizeOfFramedValue = ({ valueStart, valueEnd, shape }: RecordInPlace): number =>
  (shape.valuePrefix?.length ?? 0) + valueEnd - valueStart;

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
  batch[magicAt] = magicOfBatches;
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
  const { headers } = record;
  batch[offset] = 0;
  batch[offset + 1] = 0;
  let at = writeVarint(batch, place, offset + recordPrefixSize);
  at = 'bytes' in record ? writeInPlace(batch, record, at) : writeParts(batch, record, at);
  const shared = sharedHeadersOf(record);
  at = writeVarint(batch, (shared?.count ?? 0) + (headers ? countHeaders(headers) : 0), at);
  if (shared) {
    batch.set(shared.bytes, at);
    at += shared.bytes.length;
    if (shared.endsWithUuid) at = writeUuidOf(batch, record, at);
  }
  return headers ? writeHeaders(batch, headers, at) : at;
};

const writeParts = (batch: Buffer, { key, value }: RecordInParts, offset: number): number =>
  writeBytes(batch, value, writeBytes(batch, key, offset));

const writeInPlace = (batch: Buffer, record: RecordInPlace, offset: number): number => {
  const { bytes, keyStart, keyEnd, valueStart, valueEnd } = record;
  const { valuePrefix } = record.shape;
  let at = writeVarint(batch, keyEnd - keyStart, offset);
  // Keys are short: the call into Node would cost more than the copy.
  for (let from = keyStart; from < keyEnd; from++) batch[at++] = bytes[from] as number;
  at = writeVarint(batch, sizeOfFramedValue(record), at);
  if (valuePrefix)
    for (let from = 0; from < valuePrefix.length; from++) batch[at++] = valuePrefix[from] as number;
  return at + bytes.copy(batch, at, valueStart, valueEnd);
};

const writeUuidOf = (batch: Buffer, record: OutgoingRecord, offset: number): number => {
  if (!('bytes' in record))
    throw new Error('The shared headers end with a UUID that the record does not have');
  return writeUuidText(batch, record.bytes, { from: record.uuidStart, to: offset });
};

export const sealRecordBatch = (batch: Buffer, state: ProducerState): void => {
  batch.writeBigInt64BE(state.producerId, producerIdAt);
  batch.writeInt16BE(state.producerEpoch, producerEpochAt);
  batch.writeInt32BE(state.firstSequence, firstSequenceAt);
  batch.writeUInt32BE(crc32c(batch, checksumFrom), checksumAt);
};
