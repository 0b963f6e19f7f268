import { UnsupportedRecords } from '../streams/record.ts';
import { batchHeaderSize } from './batch-layout.ts';
import type { BatchView } from './batch-view.ts';
import { decompressRecords } from './decompress-records.ts';
import { type BatchFacts, DamagedRecords, FetchedRecord, type ReadRecord } from './fetched-record.ts';
import { WireReader } from './wire-reader.ts';

export interface ReadLimits {
  /** How many records there may be in all, those that were there before included. */
  readonly recordsMax: number;
  /** Records before it are passed over: a fetch may begin in the middle of a batch. */
  readonly fromOffset: number;
}

/** Reads the records of one batch, in as many goes as it takes. */
export interface BatchReader {
  /** Records that are still to be read, as the batch's header tells. */
  readonly left: number;
  /** The offset to go on with. */
  readonly nextOffset: number;
  readInto(records: ReadRecord[], limits: ReadLimits): void;
}

/** What is wrong with a batch from the outside; nothing where it is as its producer made it. The checksum leaves out the format. */
export const damageOfBatch = (batch: BatchView): string | undefined => {
  if (batch.isOldFormat) return `has the old format ${batch.magic}, which is not read here`;
  return batch.isChecksumRight ? undefined : 'is damaged: its checksum is wrong';
};

/** One record that cannot be decoded stands for all of the batch, and reading goes on behind it. */
export const condemnBatch = (batch: BatchView, what: string): BatchReader =>
  new DamagedBatch(batch, damageOf(batch, what));

/** Unpacks a batch. A producer that packed it wrongly made one record that cannot be decoded of it. */
export const openBatch = (batch: BatchView): BatchReader => {
  const { codec, bytes, start, end } = batch;
  if (codec === 0) return new SoundBatch(batch, { bytes, start: start + batchHeaderSize, end });
  try {
    const unpacked = decompressRecords(codec, batch.content);
    return new SoundBatch(batch, { bytes: unpacked, start: 0, end: unpacked.length });
  } catch (cause) {
    const { message } = cause as Error;
    return cause instanceof UnsupportedRecords
      ? new DamagedBatch(batch, new UnsupportedRecords(`The ${offsetsOf(batch)} are ${message}`, { cause }))
      : condemnBatch(batch, `cannot be unpacked: ${message}`);
  }
};

const offsetsOf = ({ baseOffset, lastOffset }: BatchView): string => `offsets ${baseOffset} to ${lastOffset}`;

const damageOf = (batch: BatchView, what: string): Error =>
  new Error(`The batch of ${offsetsOf(batch)} ${what}`);

class DamagedBatch implements BatchReader {
  left = 1;
  nextOffset: number;
  readonly #batch: BatchView;
  readonly #damage: Error;

  constructor(batch: BatchView, damage: Error) {
    this.#batch = batch;
    this.#damage = damage;
    this.nextOffset = batch.baseOffset;
  }

  readInto(records: ReadRecord[], { recordsMax, fromOffset }: ReadLimits): void {
    if (records.length >= recordsMax) return;
    const { baseOffset, lastOffset, firstTimestampMs, whole } = this.#batch;
    records.push(
      new DamagedRecords({
        offset: Math.max(baseOffset, fromOffset),
        timestampMs: firstTimestampMs,
        bytes: whole,
        damage: this.#damage,
      }),
    );
    this.left = 0;
    this.nextOffset = lastOffset + 1;
  }
}

class SoundBatch implements BatchReader {
  left: number;
  nextOffset: number;
  readonly #batch: BatchView;
  readonly #facts: BatchFacts;
  readonly #reader: WireReader;
  #offsetDeltaMin = 0;

  constructor(batch: BatchView, content: { bytes: Buffer; start: number; end: number }) {
    const { baseOffset, lastOffsetDelta, firstTimestampMs, appendedMs } = batch;
    const { bytes, end } = content;
    this.#batch = batch;
    this.#facts = { bytes, end, baseOffset, lastOffsetDelta, firstTimestampMs, appendedMs };
    this.#reader = new WireReader(bytes, content.start);
    this.left = batch.records;
    this.nextOffset = baseOffset;
  }

  readInto(records: ReadRecord[], { recordsMax, fromOffset }: ReadLimits): void {
    while (this.left > 0 && records.length < recordsMax) {
      const start = this.#reader.at;
      const record = new FetchedRecord(this.#facts, this.#reader);
      if (!record.isSound(this.#offsetDeltaMin)) {
        records.push(this.#restFrom(start, fromOffset));
        this.left = 0;
        break;
      }
      this.left--;
      this.#offsetDeltaMin = record.offsetDelta + 1;
      if (record.offset >= fromOffset) records.push(record);
    }
    const { baseOffset, lastOffset } = this.#batch;
    // Records at the end of a batch may have been compacted away; their offsets have not.
    this.nextOffset = this.left === 0 ? lastOffset + 1 : baseOffset + this.#offsetDeltaMin;
  }

  /** The bytes that should have been records: one record stands for all of them. */
  #restFrom(start: number, fromOffset: number): ReadRecord {
    const { bytes, end, baseOffset, firstTimestampMs } = this.#facts;
    return new DamagedRecords({
      offset: Math.max(baseOffset + this.#offsetDeltaMin, fromOffset),
      timestampMs: firstTimestampMs,
      bytes: bytes.subarray(start, end),
      damage: damageOf(
        this.#batch,
        `is damaged: no record begins where one should, ${end - start} bytes before its end`,
      ),
    });
  }
}
