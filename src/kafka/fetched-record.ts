import type { RawRecord, ReplayMark } from '../streams/record.ts';
import { WireReader } from './wire-reader.ts';

/** What the records of one batch have in common. */
export interface BatchFacts {
  /** The records, one after the other, unpacked; other bytes may lie before and behind them. */
  readonly bytes: Buffer;
  readonly end: number;
  readonly baseOffset: number;
  readonly lastOffsetDelta: number;
  readonly firstTimestampMs: number;
  /** Set where the broker's clock counts, and not the producers'. */
  readonly appendedMs: number | undefined;
}

/** A header's name and value; unlike in an object, a name may come twice and a value may be missing. */
export type HeaderEntry = readonly [name: string, value: Buffer | null];

export const replayHeader = '__millrace.replay';
const replayHeaderName = Buffer.from(replayHeader);

const absent = -1;

/**
 * A record where it lies in what the broker sent. Knows where its parts begin and end; key, value and headers are cut out
 * when somebody asks for them, and most are not asked for.
 */
export class FetchedRecord implements RawRecord {
  readonly valueStart: number;
  readonly valueEnd: number;
  readonly #batch: BatchFacts;
  readonly #offsetDelta: number;
  readonly #timestampDelta: number;
  readonly #keyStart: number;
  readonly #keyEnd: number;
  readonly #headersStart: number;
  readonly #end: number;

  /** Reads one record; the reader stands behind it afterwards. `isSound` tells whether it can be one. */
  constructor(batch: BatchFacts, reader: WireReader) {
    const length = reader.varint();
    const start = reader.at;
    // Attributes of records are not used by anybody yet.
    reader.at = start + 1;
    this.#batch = batch;
    this.#end = start + length;
    this.#timestampDelta = reader.varlong();
    this.#offsetDelta = reader.varint();
    const keyLength = reader.varint();
    this.#keyStart = keyLength < 0 ? absent : reader.at;
    reader.at += keyLength < 0 ? 0 : keyLength;
    this.#keyEnd = keyLength < 0 ? absent : reader.at;
    const valueLength = reader.varint();
    this.valueStart = valueLength < 0 ? absent : reader.at;
    reader.at += valueLength < 0 ? 0 : valueLength;
    this.valueEnd = valueLength < 0 ? absent : reader.at;
    this.#headersStart = reader.at;
    reader.at = this.#end;
  }

  isSound(offsetDeltaMin: number): boolean {
    const { end, lastOffsetDelta } = this.#batch;
    return (
      this.#headersStart < this.#end &&
      this.#end <= end &&
      this.#offsetDelta >= offsetDeltaMin &&
      this.#offsetDelta <= lastOffsetDelta
    );
  }

  get offsetDelta(): number {
    return this.#offsetDelta;
  }

  get offset(): number {
    return this.#batch.baseOffset + this.#offsetDelta;
  }

  get timestampMs(): number {
    const { firstTimestampMs, appendedMs } = this.#batch;
    return appendedMs ?? firstTimestampMs + this.#timestampDelta;
  }

  get bytes(): Buffer {
    return this.#batch.bytes;
  }

  get key(): Buffer | null {
    return this.#keyStart === absent ? null : this.bytes.subarray(this.#keyStart, this.#keyEnd);
  }

  get value(): Buffer | null {
    return this.valueStart === absent ? null : this.bytes.subarray(this.valueStart, this.valueEnd);
  }

  get headers(): Readonly<Record<string, Buffer>> {
    // Without a prototype, so that a header may have any name.
    const headers: Record<string, Buffer> = Object.create(null);
    for (const [name, value] of this.headerEntries()) if (value) headers[name] = value;
    return headers;
  }

  /** Headers as they are; of damaged ones those before the damage. */
  headerEntries(): readonly HeaderEntry[] {
    const reader = new WireReader(this.bytes, this.#headersStart);
    const entries: HeaderEntry[] = [];
    for (let left = reader.varint(); left > 0; left--) {
      const name = this.#part(reader);
      const value = this.#part(reader);
      if (!name || value === undefined) break;
      entries.push([name.toString('utf8'), value]);
    }
    return entries;
  }

  /** Undefined where the bytes cannot be a part of this record. */
  #part(reader: WireReader): Buffer | null | undefined {
    const length = reader.varint();
    const start = reader.at;
    if (start > this.#end || length < -1 || start + length > this.#end) return undefined;
    if (length < 0) return null;
    reader.at = start + length;
    return this.bytes.subarray(start, start + length);
  }

  get replay(): ReplayMark | undefined {
    return this.#firstHeaderIs(replayHeaderName) ? parseReplayMark(this.headers[replayHeader]) : undefined;
  }

  /** Asked of every record, hence without making anything. */
  #firstHeaderIs(name: Buffer): boolean {
    const reader = new WireReader(this.bytes, this.#headersStart);
    if (reader.varint() <= 0 || reader.varint() !== name.length || reader.at + name.length > this.#end) {
      return false;
    }
    return this.bytes.compare(name, 0, name.length, reader.at, reader.at + name.length) === 0;
  }
}

/** A mark that says something else than it should is none. */
export const parseReplayMark = (value: Buffer | undefined): ReplayMark | undefined => {
  try {
    const mark: unknown = JSON.parse(value?.toString('utf8') ?? '');
    return isReplayMark(mark) ? mark : undefined;
  } catch {
    return undefined;
  }
};

const isReplayMark = (mark: unknown): mark is ReplayMark =>
  typeof mark === 'object' &&
  mark !== null &&
  'id' in mark &&
  typeof mark.id === 'string' &&
  'projection' in mark &&
  typeof mark.projection === 'string' &&
  'attempt' in mark &&
  typeof mark.attempt === 'number';

/** What comes out of a batch. */
export type ReadRecord = FetchedRecord | DamagedRecords;

/** Bytes that cannot be taken apart into records. They stand for all of those, as one record that cannot be decoded. */
export class DamagedRecords implements RawRecord {
  readonly offset: number;
  readonly timestampMs: number;
  readonly bytes: Buffer;
  readonly damage: Error;
  readonly key = null;
  readonly headers = {};
  readonly replay = undefined;
  readonly valueStart = 0;

  constructor(what: { offset: number; timestampMs: number; bytes: Buffer; damage: Error }) {
    this.offset = what.offset;
    this.timestampMs = what.timestampMs;
    this.bytes = what.bytes;
    this.damage = what.damage;
  }

  get value(): Buffer {
    return this.bytes;
  }

  headerEntries(): readonly HeaderEntry[] {
    return [];
  }

  get valueEnd(): number {
    return this.bytes.length;
  }
}
