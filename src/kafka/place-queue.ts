import type { Place, RawBatch } from '../streams/record.ts';
import { DamageWatch, type SuspectBatch, type Verdict } from './damage-watch.ts';
import type { FetchedPartition } from './fetch-response.ts';
import type { ReadRecord } from './fetched-record.ts';
import { RecordSetReader, recordSetFrom } from './record-set.ts';

export type OnDamage = (found: Place & { offset: number; what: string; verdict: Verdict }) => void;

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
  /** Where the broker's log ended when it was asked last, and when that was. */
  #stable: { readonly offset: number; readonly askedAtMs: number } | undefined;
  readonly #damage = new DamageWatch();
  readonly #onDamage: OnDamage;

  constructor(place: Place, reading: number, onDamage: OnDamage) {
    this.#onDamage = onDamage;
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
    this.#stable = undefined;
  }

  /** Nothing was asked for a while: how the broker's log ended before says nothing any more, and silence counts from now. */
  askAnew(nowMs: number): void {
    this.#stable = undefined;
    this.heardAtMs = Math.max(this.heardAtMs, nowMs);
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

  /** Whether everything is taken that the broker had when it was asked last, after that time. */
  isCaughtUp(askedAfterMs: number): boolean {
    return (
      !this.hasSomething &&
      this.#fetchOffset !== undefined &&
      this.#stable !== undefined &&
      this.#fetchOffset >= this.#stable.offset &&
      this.#stable.askedAtMs > askedAfterMs
    );
  }

  /** Takes in what a broker answered. False where that is not what comes next here: it was asked before a seek. */
  accept(fetched: FetchedPartition, asked: { offset: number; askedAtMs: number; nowMs: number }): boolean {
    if (asked.offset !== this.#fetchOffset) return false;
    const set = recordSetFrom(fetched, asked.offset);
    this.#stable = { offset: fetched.lastStableOffset, askedAtMs: asked.askedAtMs };
    if (set) {
      const bytes = detached(set.bytes);
      const { aborted } = fetched;
      this.#sets.push(new RecordSetReader({ ...set, bytes }, { fromOffset: asked.offset, aborted }));
      this.#fetchOffset = set.nextOffset;
      this.heardAtMs = asked.nowMs;
    } else if (fetched.lastStableOffset <= asked.offset) {
      this.heardAtMs = asked.nowMs;
    }
    return true;
  }

  /** The next records; nothing where there is not even an offset to move to. */
  take({ recordsMax, nowMs }: { recordsMax: number; nowMs: number }): RawBatch | undefined {
    const records: ReadRecord[] = [];
    const before = this.#takeOffset;
    for (let set = this.#sets[0]; set; set = this.#sets[0]) {
      set.readInto(records, recordsMax);
      if (set.nextOffset > this.#takeOffset) {
        this.#takeOffset = set.nextOffset;
        this.#damage.pass();
      }
      if (set.suspect) this.#judge(set, set.suspect, nowMs);
      else if (!set.isAtEnd) break;
      else this.#sets.shift();
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

  #judge(set: RecordSetReader, suspect: SuspectBatch, nowMs: number): void {
    const verdict = this.#damage.judge(suspect);
    this.#onDamage({ ...this.place, offset: suspect.offset, what: suspect.what, verdict });
    if (verdict.isCondemned) {
      set.condemn();
      return;
    }
    this.#sets.length = 0;
    this.#fetchOffset = this.#takeOffset;
    this.#notBeforeMs = nowMs + verdict.fetchAgainAfterMs;
    this.heardAtMs = this.#notBeforeMs;
  }
}

/** A slice keeps the whole answer that it was cut from in memory: small ones are copied, so that four times the queue is held at most. */
const detached = (slice: Buffer): Buffer => {
  if (slice.length * 4 >= slice.buffer.byteLength) return slice;
  const copy = Buffer.allocUnsafeSlow(slice.length);
  slice.copy(copy);
  return copy;
};
