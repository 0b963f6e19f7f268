import {
  attributesAt,
  batchHeaderSize,
  checksumAt,
  checksumFrom,
  codecMask,
  countAt,
  firstTimestampAt,
  isControl,
  isLogAppendTime,
  isTransactional,
  lastOffsetDeltaAt,
  leaderEpochAt,
  lengthAt,
  lengthCountsFrom,
  magicAt,
  magicOfBatches,
  maxTimestampAt,
  producerIdAt,
  readInt64,
} from './batch-layout.ts';
import { crc32c } from './crc32c.ts';

/** A record batch where it lies in what the broker sent. */
export class BatchView {
  readonly bytes: Buffer;
  readonly start: number;
  readonly end: number;

  private constructor(bytes: Buffer, place: { start: number; end: number }) {
    this.bytes = bytes;
    this.start = place.start;
    this.end = place.end;
  }

  /** The batch that begins here; nothing where it is not all there: the broker cuts at a number of bytes. */
  static at(bytes: Buffer, start: number): BatchView | undefined {
    if (start + lengthCountsFrom > bytes.length) return undefined;
    const end = start + lengthCountsFrom + bytes.readInt32BE(start + lengthAt);
    if (end > bytes.length || end <= start + magicAt) return undefined;
    const batch = new BatchView(bytes, { start, end });
    return batch.isOldFormat || end >= start + batchHeaderSize ? batch : undefined;
  }

  /** Before version 2 a batch was one message, perhaps with others packed inside, and had the offset of the last one. */
  get isOldFormat(): boolean {
    return this.magic !== magicOfBatches;
  }

  get magic(): number {
    return this.bytes.readInt8(this.start + magicAt);
  }

  get baseOffset(): number {
    return readInt64(this.bytes, this.start);
  }

  get lastOffsetDelta(): number {
    return this.isOldFormat ? 0 : Math.max(0, this.bytes.readInt32BE(this.start + lastOffsetDeltaAt));
  }

  get lastOffset(): number {
    return this.baseOffset + this.lastOffsetDelta;
  }

  get records(): number {
    return this.isOldFormat ? 1 : Math.max(0, this.bytes.readInt32BE(this.start + countAt));
  }

  /** Of the broker that wrote it; undefined where nobody knows. The checksum leaves it out. */
  get leaderEpoch(): number | undefined {
    if (this.isOldFormat) return undefined;
    const epoch = this.bytes.readInt32BE(this.start + leaderEpochAt);
    return epoch < 0 ? undefined : epoch;
  }

  get #attributes(): number {
    return this.bytes.readInt16BE(this.start + attributesAt);
  }

  get codec(): number {
    return this.#attributes & codecMask;
  }

  get isControl(): boolean {
    return !this.isOldFormat && (this.#attributes & isControl) !== 0;
  }

  get isTransactional(): boolean {
    return !this.isOldFormat && (this.#attributes & isTransactional) !== 0;
  }

  get producerId(): number {
    return readInt64(this.bytes, this.start + producerIdAt);
  }

  get firstTimestampMs(): number {
    return this.isOldFormat ? 0 : readInt64(this.bytes, this.start + firstTimestampAt);
  }

  /** The broker's own time of writing, on topics where that is what counts. */
  get appendedMs(): number | undefined {
    return (this.#attributes & isLogAppendTime) === 0
      ? undefined
      : readInt64(this.bytes, this.start + maxTimestampAt);
  }

  get isChecksumRight(): boolean {
    const batch = this.whole;
    return crc32c(batch, checksumFrom) === batch.readUInt32BE(checksumAt);
  }

  get whole(): Buffer {
    return this.bytes.subarray(this.start, this.end);
  }

  /** Packed or not. */
  get content(): Buffer {
    return this.bytes.subarray(this.start + batchHeaderSize, this.end);
  }
}
