import { parseReplayMark, replayHeader } from '../kafka/fetched-record.ts';
import { Signal } from '../kafka/signal.ts';
import type { StoredRecord, TopicReader } from '../kafka/topic-reader.ts';
import type { RecordSource, SeekOptions, SourceHandlers } from '../streams/ports.ts';
import { type LogIdentity, type Place, placeText, type RawBatch, type RawRecord } from '../streams/record.ts';

export interface PlaceOffset extends Place {
  readonly offset: number;
  /** The topic that the offset belongs to; missing where it is not known. */
  readonly topicId?: string | null | undefined;
}

export interface TopicSourceOptions {
  readonly reader: TopicReader;
  readonly places: readonly Place[];
  readonly onApplied: (places: readonly PlaceOffset[]) => void;
}

/** Until a place is read again at which a transaction is open. */
const transactionWaitMs = 100;

interface ReadPlace extends Place {
  /** The topic that it is read from; whichever has the name where it is not known. */
  topicId: string | undefined;
  reading: number;
  next: number;
  target: number;
  applied: number;
  /** Not before then, where a record waits for something. */
  notBeforeMs: number;
  /** What was fetched and not taken, and where more comes from. */
  fetched: readonly StoredRecord[];
  range: AsyncGenerator<readonly StoredRecord[], number> | undefined;
}

/**
 * The topics as a source of records that goes exactly as far as it is told, so that two builds can be brought to the same
 * position. It belongs to no group: nobody's partitions move because of it.
 */
export class TopicSource implements RecordSource {
  readonly failed = new Promise<Error>(() => {});
  readonly #options: TopicSourceOptions;
  readonly #places: Map<string, ReadPlace>;
  readonly #changed = new Signal();
  readonly #applied = new Signal();
  #readings = 1;

  constructor(options: TopicSourceOptions) {
    this.#options = options;
    this.#places = new Map(
      options.places.map(({ topic, partition }) => [
        placeText({ topic, partition }),
        {
          topic,
          partition,
          topicId: undefined,
          reading: 1,
          next: 0,
          target: 0,
          applied: 0,
          notBeforeMs: 0,
          fetched: [],
          range: undefined,
        },
      ]),
    );
  }

  async start({ onAssigned }: SourceHandlers): Promise<void> {
    const starts = await onAssigned(
      [...this.#places.values()].map(({ topic, partition, reading }) => ({ topic, partition, reading })),
    );
    for (const { topic, partition, offset = 0, log } of starts) {
      const place = this.#places.get(placeText({ topic, partition }));
      const topicId = log?.topicId;
      if (place) Object.assign(place, { next: offset, target: offset, applied: offset, topicId });
    }
  }

  get applied(): readonly PlaceOffset[] {
    return [...this.#places.values()].map(({ topic, partition, applied }) => ({
      topic,
      partition,
      offset: applied,
    }));
  }

  /** Reads on up to there; settles when all of it is applied. Places that are further already stay where they are. */
  async advanceTo(targets: readonly PlaceOffset[], signal: AbortSignal): Promise<void> {
    for (const { offset, ...place } of targets) {
      const own = this.#places.get(placeText(place));
      if (own) own.target = Math.max(own.target, offset);
    }
    this.#changed.raise();
    while (this.#isBehind()) {
      signal.throwIfAborted();
      await this.#applied.wait(100);
    }
  }

  #isBehind(): boolean {
    return this.#places.values().some(({ applied, target }) => applied < target);
  }

  async take({ recordsMax, waitMs }: { recordsMax: number; waitMs: number }): Promise<readonly RawBatch[]> {
    const open = this.#open();
    if (open.length === 0) {
      await this.#changed.wait(Math.min(waitMs, 50));
      return [];
    }
    const share = Math.max(1, Math.floor(recordsMax / open.length));
    const batches: RawBatch[] = [];
    for (const place of open) {
      const batch = await this.#takeOf(place, share);
      if (batch) batches.push(batch);
    }
    return batches;
  }

  #open(): readonly ReadPlace[] {
    return [...this.#places.values()].filter(
      ({ next, target, notBeforeMs }) => next < target && Date.now() >= notBeforeMs,
    );
  }

  async #takeOf(place: ReadPlace, recordsMax: number): Promise<RawBatch | undefined> {
    const { reading, next: fromOffset } = place;
    if (place.fetched.length === 0) {
      // A target that moves on meanwhile is where the next stretch ends. A build without what is gone from the topic would be
      // wrong, and nobody could see it.
      place.range ??= this.#options.reader.read(
        { ...placeOf(place), start: fromOffset, end: place.target, topicId: place.topicId },
        { requireAll: true },
      );
      const { value, done } = await place.range.next();
      if (place.reading !== reading) return undefined;
      if (done) return endRange(place, value);
      place.fetched = value;
    }
    const taken = place.fetched.slice(0, recordsMax);
    place.fetched = place.fetched.slice(recordsMax);
    place.next = (taken.at(-1)?.offset ?? fromOffset - 1) + 1;
    return {
      ...placeOf(place),
      reading,
      fromOffset,
      records: taken.map(toRawRecord),
      nextOffset: place.next,
      log: logOf(place),
    };
  }

  seek(place: Place, offset: number, options?: SeekOptions): number {
    const reading = ++this.#readings;
    const own = this.#places.get(placeText(place));
    if (own) {
      const notBeforeMs = Date.now() + (options?.afterMs ?? 0);
      Object.assign(own, { reading, next: offset, fetched: [], range: undefined, notBeforeMs });
    }
    this.#changed.raise();
    return reading;
  }

  /** Where it is told to stop is not where the topic ends: windows are left to the live projection's own clock. */
  isCaughtUp(): boolean {
    return false;
  }

  reportApplied(offsets: readonly PlaceOffset[]): void {
    for (const { offset, ...place } of offsets) {
      const own = this.#places.get(placeText(place));
      if (own) own.applied = Math.max(own.applied, offset);
    }
    this.#options.onApplied(this.applied);
    this.#applied.raise();
  }

  async stop(): Promise<void> {
    this.#changed.raise();
  }
}

const placeOf = ({ topic, partition }: Place): Place => ({ topic, partition });

const logOf = ({ topicId }: ReadPlace): LogIdentity | undefined =>
  topicId === undefined ? undefined : { topicId, leaderEpoch: undefined };

/** What stands between the last record and where the range ended are no records: marks of transactions, or gaps. */
const endRange = (place: ReadPlace, end: number): RawBatch | undefined => {
  const { reading, next: fromOffset } = place;
  place.range = undefined;
  place.next = end;
  // A transaction is still open there: what it has is read when it has ended.
  if (end < place.target) place.notBeforeMs = Date.now() + transactionWaitMs;
  return fromOffset < end
    ? { ...placeOf(place), reading, fromOffset, records: [], nextOffset: end, log: logOf(place) }
    : undefined;
};

const toRawRecord = ({ offset, timestampMs, key, value, headers, damage }: StoredRecord): RawRecord => {
  const [first] = headers;
  const bytes = value ?? Buffer.alloc(0);
  return {
    offset,
    timestampMs,
    key,
    value,
    headers: {},
    replay: first?.[0] === replayHeader ? parseReplayMark(first[1] ?? undefined) : undefined,
    bytes,
    valueStart: value ? 0 : -1,
    valueEnd: bytes.length,
    ...(damage && { damage }),
  };
};
