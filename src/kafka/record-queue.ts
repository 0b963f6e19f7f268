import type { SeekOptions } from '../streams/ports.ts';
import { type LogBreak, type Place, placeText, type RawBatch } from '../streams/record.ts';
import type { FetchedPartition } from './fetch-response.ts';
import { type FetchCall, outOfRange, type PlannedFetch } from './own-fetches.ts';
import { type OnDamage, PlaceQueue, type PlaceStart } from './place-queue.ts';
import { Signal } from './signal.ts';

export interface OutOfRange extends Place {
  readonly reading: number;
  readonly offset: number;
  /** Set where the place begins anew and nobody has been told yet. */
  readonly logBreak?: LogBreak | undefined;
}

export interface RecordQueueOptions {
  /** Fetched bytes that wait to be taken, over all places, besides the batch that is just being taken of each. */
  readonly bytesMax: number;
  readonly clock?: () => number;
  /** The topic has no such offset (any more). The place stays closed until somebody opens it. */
  readonly onOutOfRange: (place: OutOfRange) => void;
  /** A batch came damaged. It is fetched again, or condemned where it comes damaged in the same way every time. */
  readonly onDamage: OnDamage;
  /** A place whose start nobody knew begins where the broker's group stands. */
  readonly onStartedByGroup: (place: Place & { readonly offset: number }) => void;
}

/** Asked for of one place at once, at most. */
const placeBytesMax = 512 * 1024;
/** A broker answers with one whole batch at least, whatever is asked for. */
const placeBytesMin = 64 * 1024;
/** What one answer has at most, and so what stays in memory for it while it is taken apart. */
const answerBytesMax = 1024 * 1024;
/** While a place is full a broker must not sit on a request for the others: the full one may have room in a moment. */
const hurriedWaitMs = 10;

/** What was fetched and not taken yet, of every place that is assigned. Decides what is fetched next, so that it stays bounded. */
export class RecordQueue {
  /** Something can be taken. */
  readonly arrived = new Signal();
  /** Something can be fetched. */
  readonly freed = new Signal();
  readonly #options: RecordQueueOptions;
  readonly #clock: () => number;
  #queues = new Map<string, PlaceQueue>();
  #readings = 0;
  #turn = 0;
  #isPaused = false;

  constructor(options: RecordQueueOptions) {
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
  }

  /** While it is paused nothing is asked for and nothing can be taken; what was fetched before waits. */
  setPaused(isPaused: boolean): void {
    if (isPaused === this.#isPaused) return;
    this.#isPaused = isPaused;
    if (isPaused) return;
    for (const queue of this.#queues.values()) queue.askAnew(this.#clock());
    this.freed.raise();
    this.arrived.raise();
  }

  /** Drops everything; none of the new places is fetched before it is opened. */
  assign(places: readonly Place[]): readonly (Place & { readonly reading: number })[] {
    this.#queues = new Map(
      places.map((place) => [
        placeText(place),
        new PlaceQueue(place, ++this.#readings, this.#options.onDamage),
      ]),
    );
    return [...this.#queues.values()].map(({ place, reading }) => ({ ...place, reading }));
  }

  has(place: Place): boolean {
    return this.#queues.has(placeText(place));
  }

  /** What waits to be taken. */
  get bytes(): number {
    return this.#queues.values().reduce((sum, { bytes }) => sum + bytes, 0);
  }

  isReading(place: Place & { readonly reading: number }): boolean {
    return this.#queues.get(placeText(place))?.reading === place.reading;
  }

  /** Fetches the place from there on, provided that it is still the same reading of it. */
  open(
    place: Place & { readonly reading: number },
    offset: number | undefined,
    known: Omit<PlaceStart, 'offset'> = {},
  ): void {
    const queue = this.#queues.get(placeText(place));
    if (queue?.reading !== place.reading) return;
    queue.open({ offset, ...known }, { nowMs: this.#clock() });
    this.freed.raise();
  }

  /** Fetches the place from there on, and tells whoever takes that what was taken before is not in its log any more. */
  openAnew(place: Place & { readonly reading: number }, logBreak: LogBreak, offset: number): void {
    const queue = this.#queues.get(placeText(place));
    if (queue?.reading !== place.reading) return;
    queue.openAnew(logBreak, { offset, nowMs: this.#clock() });
    this.freed.raise();
  }

  seek(place: Place, offset: number, { afterMs, log }: SeekOptions = {}): number {
    const reading = ++this.#readings;
    const queue = this.#queues.get(placeText(place));
    if (queue) {
      queue.reading = reading;
      queue.open({ offset, log }, { nowMs: this.#clock(), afterMs });
      this.freed.raise();
    }
    return reading;
  }

  isCaughtUp(place: Place, askedAfterMs = Number.NEGATIVE_INFINITY): boolean {
    return this.#queues.get(placeText(place))?.isCaughtUp(askedAfterMs) ?? false;
  }

  /** Narrows a fetch that kafkajs would make down to places that have room, from where those stand. */
  plan(call: FetchCall): PlannedFetch | undefined {
    if (this.#isPaused) return undefined;
    const nowMs = this.#clock();
    const asked = new Map<string, { queue: PlaceQueue; offset: number }>();
    let bytes = 0;
    let someAreFull = false;
    const topics = call.topics.map(({ topic, partitions }) => ({
      topic,
      partitions: partitions.flatMap(({ partition, fetchOffset }) => {
        const queue = this.#queues.get(placeText({ topic, partition }));
        if (!queue?.isOpen(nowMs)) return [];
        if (!this.#hasRoom(queue)) {
          someAreFull = true;
          return [];
        }
        const offset = this.#startOf(queue, Number(fetchOffset));
        const maxBytes = Math.max(placeBytesMin, Math.min(placeBytesMax, this.#share - queue.bytes));
        bytes += maxBytes;
        asked.set(placeText(queue.place), { queue, offset });
        return [{ partition, fetchOffset: String(offset), maxBytes, ...queue.asked }];
      }),
    }));
    if (asked.size === 0) return undefined;
    return {
      call: {
        ...call,
        topics: topics.filter(({ partitions }) => partitions.length > 0),
        maxBytes: Math.min(answerBytesMax, bytes),
        maxWaitTime: someAreFull ? Math.min(hurriedWaitMs, call.maxWaitTime) : call.maxWaitTime,
      },
      accept: (partitions) => {
        for (const fetched of partitions) {
          const one = asked.get(placeText(fetched));
          if (one) this.#accept(fetched, { ...one, askedAtMs: nowMs });
        }
      },
    };
  }

  get #share(): number {
    return this.#options.bytesMax / this.#queues.size;
  }

  /** Filled up when half empty, not record by record. */
  #hasRoom({ bytes }: PlaceQueue): boolean {
    return bytes * 2 <= this.#share;
  }

  #startOf(queue: PlaceQueue, groupOffset: number): number {
    const isNew = queue.fetchOffset === undefined;
    const offset = queue.fetchOffsetOr(groupOffset);
    if (isNew) this.#options.onStartedByGroup({ ...queue.place, offset });
    return offset;
  }

  #accept(
    fetched: FetchedPartition,
    { queue, offset, askedAtMs }: { queue: PlaceQueue; offset: number; askedAtMs: number },
  ): void {
    // A place that was assigned anew has a queue of its own: nothing comes over from the one before.
    if (this.#queues.get(placeText(queue.place)) !== queue) return;
    if (fetched.errorCode === outOfRange) {
      if (queue.fetchOffset !== offset) return;
      queue.close();
      const { place, reading, logBreak } = queue;
      this.#options.onOutOfRange({ ...place, reading, offset, logBreak });
    } else if (fetched.divergence) {
      if (queue.fetchOffset === offset) queue.diverge(fetched.divergence);
    } else if (
      fetched.errorCode === 0 &&
      queue.accept(fetched, { offset, askedAtMs, nowMs: this.#clock() })
    ) {
      if (queue.hasSomething) this.arrived.raise();
    }
  }

  /** One batch per place at most. Whoever has little gives all of it, and what that leaves is shared by the others. */
  take(recordsMax: number): readonly RawBatch[] {
    if (this.#isPaused) return [];
    const waiting = [...this.#queues.values()].filter(({ hasSomething }) => hasSomething);
    const inTurn = waiting.map((_, index) => waiting[(index + this.#turn) % waiting.length] as PlaceQueue);
    this.#turn++;
    const shares = shareOut(
      recordsMax,
      inTurn.map(({ records }) => records),
    );
    return inTurn.flatMap((queue, index) => this.#takeFrom(queue, shares[index] ?? 0) ?? []);
  }

  #takeFrom(queue: PlaceQueue, recordsMax: number): RawBatch | undefined {
    const hadRoom = this.#hasRoom(queue);
    const batch = queue.take({ recordsMax, nowMs: this.#clock() });
    if (!hadRoom && this.#hasRoom(queue)) {
      queue.heardAtMs = this.#clock();
      this.freed.raise();
    }
    return batch;
  }

  /** Places that are asked for and have not been heard of since then. */
  silentSince(timeMs: number): readonly (Place & { readonly offset: number | undefined })[] {
    if (this.#isPaused) return [];
    return [...this.#queues.values()]
      .filter((queue) => queue.isOpen(this.#clock()) && this.#hasRoom(queue) && queue.heardAtMs < timeMs)
      .map(({ place, fetchOffset }) => ({ ...place, offset: fetchOffset }));
  }
}

/** As even as can be; what does not come out even goes to those who come first. */
const shareOut = (total: number, wanted: readonly number[]): readonly number[] => {
  const shares = wanted.map(() => 0);
  const smallestFirst = wanted.map((_, index) => index).sort((a, b) => (wanted[a] ?? 0) - (wanted[b] ?? 0));
  let left = total;
  for (const [position, index] of smallestFirst.entries()) {
    const share = Math.min(wanted[index] ?? 0, Math.floor(left / (wanted.length - position)));
    shares[index] = share;
    left -= share;
  }
  return shares.map((share, index) => {
    if (left === 0 || share === wanted[index]) return share;
    left--;
    return share + 1;
  });
};
