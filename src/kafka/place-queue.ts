import type { LogBreak, LogIdentity, Place, RawBatch } from '../streams/record.ts';
import { DamageWatch, type SuspectBatch, type Verdict } from './damage-watch.ts';
import type { Divergence, FetchedPartition } from './fetch-response.ts';
import type { ReadRecord } from './fetched-record.ts';
import { RecordSetReader, recordSetFrom } from './record-set.ts';

export type OnDamage = (found: Place & { offset: number; what: string; verdict: Verdict }) => void;

/** Where a place is fetched from. */
export interface PlaceStart {
  /** Undefined for wherever the broker's group stands. */
  readonly offset: number | undefined;
  /** The log that the offset was read in, where it is known. */
  readonly log?: LogIdentity | undefined;
  /** The topic that has the place's name now; the one that was told before where it is not told. */
  readonly topicId?: string | undefined;
}

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
  #topicId: string | undefined;
  /** Of the records before what is fetched, and before what is taken next. */
  #fetchEpoch: number | undefined;
  #takeEpoch: number | undefined;
  /** Whoever takes has to be told first that the place begins anew; not before a broker has answered for the log. */
  #logBreak: LogBreak | undefined;
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

  /** From here on the place is fetched; from its beginning where the offset is that of another log. */
  open(
    { offset, log, topicId }: PlaceStart,
    { nowMs, afterMs = 0 }: { nowMs: number; afterMs?: number | undefined },
  ): void {
    this.#reopen(nowMs + afterMs);
    this.#logBreak = undefined;
    this.#topicId = topicId ?? this.#topicId;
    const isOfAnother = log && this.#topicId !== undefined && log.topicId !== this.#topicId;
    if (isOfAnother) this.#beginAnew('recreated', { offset: 0, leaderEpoch: undefined });
    else if (offset !== undefined) this.#moveTo(offset, log?.leaderEpoch);
  }

  /** From here on the place is fetched from there, and whoever takes is told that what was taken before does not count. */
  openAnew(logBreak: LogBreak, { offset, nowMs }: { offset: number; nowMs: number }): void {
    this.#reopen(nowMs);
    this.#beginAnew(logBreak, { offset, leaderEpoch: undefined });
  }

  #reopen(notBeforeMs: number): void {
    this.close();
    this.#isOpen = true;
    this.#notBeforeMs = notBeforeMs;
    this.heardAtMs = notBeforeMs;
  }

  #beginAnew(logBreak: LogBreak, at: { offset: number; leaderEpoch: number | undefined }): void {
    this.#logBreak = logBreak;
    this.#stable = undefined;
    this.#moveTo(at.offset, at.leaderEpoch);
  }

  /**
   * The log is not the one that was read before the offset that was asked for. Within the last epoch that both have, they are
   * the same up to its end; where the log has lost all of that epoch, nobody here knows how far they agree.
   */
  diverge({ leaderEpoch, endOffset, logStartOffset }: Divergence): void {
    if (this.#sets.length > 0) {
      // What waits to be taken may be what is lost: asked again from what was taken.
      this.#sets.length = 0;
      this.#moveTo(this.#takeOffset, this.#takeEpoch);
    } else if (leaderEpoch === this.#fetchEpoch)
      this.#beginAnew('truncated', { offset: endOffset, leaderEpoch });
    else this.#beginAnew('truncated', { offset: logStartOffset, leaderEpoch: undefined });
  }

  /** Set until whoever takes has been told. */
  get logBreak(): LogBreak | undefined {
    return this.#logBreak;
  }

  /** What a broker has to have, or say that it does not. */
  get asked(): { readonly topicId: string | undefined; readonly lastFetchedEpoch: number | undefined } {
    return { topicId: this.#topicId, lastFetchedEpoch: this.#fetchEpoch };
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

  #moveTo(offset: number, leaderEpoch: number | undefined): void {
    this.#fetchOffset = offset;
    this.#takeOffset = offset;
    this.#fetchEpoch = leaderEpoch;
    this.#takeEpoch = leaderEpoch;
  }

  isOpen(nowMs: number): boolean {
    return this.#isOpen && nowMs >= this.#notBeforeMs;
  }

  /** Where the next fetch begins; the first time, where nobody has said where to start, at the offset given. */
  fetchOffsetOr(groupOffset: number): number {
    if (this.#fetchOffset === undefined) this.#moveTo(groupOffset, undefined);
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
    return this.#sets.length > 0 || this.#mustBeTold;
  }

  get #mustBeTold(): boolean {
    return this.#logBreak !== undefined && this.#stable !== undefined;
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
      this.#fetchEpoch = set.leaderEpoch;
      this.heardAtMs = asked.nowMs;
    } else if (fetched.lastStableOffset <= asked.offset) {
      this.heardAtMs = asked.nowMs;
    }
    return true;
  }

  /** The next records; nothing where there is not even an offset to move to. */
  take({ recordsMax, nowMs }: { recordsMax: number; nowMs: number }): RawBatch | undefined {
    if (this.#mustBeTold) return this.#tellOfBreak();
    const records: ReadRecord[] = [];
    const before = this.#takeOffset;
    for (let set = this.#sets[0]; set; set = this.#sets[0]) {
      set.readInto(records, recordsMax);
      if (set.nextOffset > this.#takeOffset) {
        this.#takeOffset = set.nextOffset;
        this.#takeEpoch = set.leaderEpoch;
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
      log: this.#log,
    };
  }

  #tellOfBreak(): RawBatch {
    const { place, reading } = this;
    const [offset, logBreak] = [this.#takeOffset, this.#logBreak];
    this.#logBreak = undefined;
    return {
      ...place,
      reading,
      fromOffset: offset,
      records: [],
      nextOffset: offset,
      log: this.#log,
      logBreak,
    };
  }

  get #log(): LogIdentity | undefined {
    const [topicId, leaderEpoch] = [this.#topicId, this.#takeEpoch];
    return topicId === undefined ? undefined : { topicId, leaderEpoch };
  }

  #judge(set: RecordSetReader, suspect: SuspectBatch, nowMs: number): void {
    const verdict = this.#damage.judge(suspect);
    this.#onDamage({ ...this.place, offset: suspect.offset, what: suspect.what, verdict });
    if (verdict.isCondemned) {
      set.condemn();
      return;
    }
    this.#sets.length = 0;
    this.#moveTo(this.#takeOffset, this.#takeEpoch);
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
