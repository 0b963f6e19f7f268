import type { RawRecord } from '../streams/record.ts';
import { batchHeaderSize } from './batch-layout.ts';
import type { BatchView } from './batch-view.ts';
import { decompressRecords } from './decompress-records.ts';
import { type BatchFacts, DamagedRecords, FetchedRecord } from './fetched-record.ts';
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
  readInto(records: RawRecord[], limits: ReadLimits): void;
}

/** Checks a batch and unpacks it. One that cannot be read is one record that cannot be decoded, and reading goes on behind it. */
export const openBatch = (batch: BatchView): BatchReader => {
  if (batch.isOldFormat)
    return new DamagedBatch(batch, `has the old format ${batch.magic}, which is not read here`);
  if (!batch.isChecksumRight) return new DamagedBatch(batch, 'is damaged: its checksum is wrong');
  const { codec, bytes, start, end } = batch;
  if (codec === 0) return new SoundBatch(batch, { bytes, start: start + batchHeaderSize, end });
  try {
    const unpacked = decompressRecords(codec, batch.content);
    return new SoundBatch(batch, { bytes: unpacked, start: 0, end: unpacked.length });
  } catch (cause) {
    return new DamagedBatch(batch, `cannot be unpacked: ${(cause as Error).message}`);
  }
};

const damageOf = ({ baseOffset, lastOffset }: BatchView, what: string): Error =>
  new Error(`The batch of offsets ${baseOffset} to ${lastOffset} ${what}`);

class DamagedBatch implements BatchReader {
  left = 1;
  nextOffset: number;
  readonly #batch: BatchView;
  readonly #damage: Error;

  constructor(batch: BatchView, what: string) {
    this.#batch = batch;
    this.#damage = damageOf(batch, what);
    this.nextOffset = batch.baseOffset;
  }

  readInto(records: RawRecord[], { recordsMax, fromOffset }: ReadLimits): void {
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

  readInto(records: RawRecord[], { recordsMax, fromOffset }: ReadLimits): void {
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
  #restFrom(start: number, fromOffset: number): RawRecord {
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
