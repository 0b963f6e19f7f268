import type { Place, RawBatch, RawRecord } from '../streams/record.ts';
import type { FetchedPartition } from './fetch-response.ts';
import { measureRecordSet, RecordSetReader } from './record-set.ts';

/** What was fetched of one place and not taken yet, in order. */
export class PlaceQueue {
  readonly place: Place;
  /** Another number with every assignment and every seek. */
  reading: number;
  /** When the broker last gave something, or said that there is nothing: silence longer than that is a stall. */
  heardAtMs = 0;
  readonly #sets: RecordSetReader[] = [];
  #isOpen = false;
  #fetchOffset: number | undefined;
  #takeOffset = 0;
  #notBeforeMs = 0;
  #stableOffset: number | undefined;

  constructor(place: Place, reading: number) {
    this.place = { topic: place.topic, partition: place.partition };
    this.reading = reading;
  }

  /** From here on the place is fetched; without an offset from wherever the broker's group stands. */
  open(start: { offset: number | undefined; nowMs: number; afterMs?: number }): void {
    this.close();
    this.#isOpen = true;
    this.#notBeforeMs = start.nowMs + (start.afterMs ?? 0);
    this.heardAtMs = this.#notBeforeMs;
    if (start.offset !== undefined) this.#moveTo(start.offset);
  }

  /** Drops what was fetched, and what is under way. */
  close(): void {
    this.#sets.length = 0;
    this.#isOpen = false;
    this.#fetchOffset = undefined;
    this.#stableOffset = undefined;
  }

  #moveTo(offset: number): void {
    this.#fetchOffset = offset;
    this.#takeOffset = offset;
  }

  isOpen(nowMs: number): boolean {
    return this.#isOpen && nowMs >= this.#notBeforeMs;
  }

  /** Where the next fetch begins; the first time, where nobody has said where to start, at the offset given. */
  fetchOffsetOr(groupOffset: number): number {
    if (this.#fetchOffset === undefined) this.#moveTo(groupOffset);
    return this.#fetchOffset as number;
  }

  get fetchOffset(): number | undefined {
    return this.#fetchOffset;
  }

  /** Of batches that nobody has begun to take. */
  get bytes(): number {
    return this.#sets.reduce((sum, set) => sum + set.bytesAhead, 0);
  }

  get records(): number {
    return this.#sets.reduce((sum, set) => sum + set.records, 0);
  }

  get hasSomething(): boolean {
    return this.#sets.length > 0;
  }

  get isCaughtUp(): boolean {
    return (
      !this.hasSomething &&
      this.#fetchOffset !== undefined &&
      this.#stableOffset !== undefined &&
      this.#fetchOffset >= this.#stableOffset
    );
  }

  /** Takes in what a broker answered. False where that is not what comes next here: it was asked before a seek. */
  accept(fetched: FetchedPartition, asked: { offset: number; nowMs: number }): boolean {
    if (asked.offset !== this.#fetchOffset) return false;
    const set = measureRecordSet(fetched.recordSet);
    this.#stableOffset = fetched.lastStableOffset;
    if (set && set.nextOffset > asked.offset) {
      const bytes = detached(set.bytes);
      // A damaged batch could claim offsets that there are not yet, and those would be passed over later.
      const nextOffset = Math.max(asked.offset + 1, Math.min(set.nextOffset, fetched.lastStableOffset));
      const { aborted } = fetched;
      this.#sets.push(
        new RecordSetReader({ ...set, bytes, nextOffset }, { fromOffset: asked.offset, aborted }),
      );
      this.#fetchOffset = nextOffset;
      this.heardAtMs = asked.nowMs;
    } else if (fetched.lastStableOffset <= asked.offset) {
      this.heardAtMs = asked.nowMs;
    }
    return true;
  }

  /** The next records; nothing where there is not even an offset to move to. */
  take(recordsMax: number): RawBatch | undefined {
    const records: RawRecord[] = [];
    const before = this.#takeOffset;
    for (let set = this.#sets[0]; set; set = this.#sets[0]) {
      set.readInto(records, recordsMax);
      this.#takeOffset = Math.max(this.#takeOffset, set.nextOffset);
      if (!set.isAtEnd) break;
      this.#sets.shift();
    }
    if (records.length === 0 && this.#takeOffset === before) return undefined;
    return {
      ...this.place,
      reading: this.reading,
      fromOffset: before,
      records,
      nextOffset: this.#takeOffset,
    };
  }
}

/** A slice keeps the whole answer that it was cut from in memory: small ones are copied, so that four times the queue is held at most. */
const detached = (slice: Buffer): Buffer => {
  if (slice.length * 4 >= slice.buffer.byteLength) return slice;
  const copy = Buffer.allocUnsafeSlow(slice.length);
  slice.copy(copy);
  return copy;
};
