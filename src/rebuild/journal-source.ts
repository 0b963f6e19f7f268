import { partitionOfKey } from '../kafka/murmur2.ts';
import { Signal } from '../kafka/signal.ts';
import type { RecordSource, SourceHandlers } from '../streams/ports.ts';
import { type Place, placeText, type RawBatch, type RawRecord } from '../streams/record.ts';
import type { JournalKinds } from './journal-kinds.ts';
import {
  type JournalDelta,
  type JournalPage,
  JournalRecord,
  type PageRequest,
  schemaOfRow,
} from './journal-page.ts';

/** After the last page there is nothing to wait for but the end. */
const idleMs = 20;

export interface JournalSourceOptions {
  readonly readPage: (request: PageRequest) => Promise<JournalPage>;
  readonly delta: JournalDelta;
  /** Every partition of every topic: a row belongs where Kafka has it, or would have it. */
  readonly places: readonly Place[];
  readonly eventTypes: readonly string[];
  readonly kinds: JournalKinds;
  /** How far everything is applied, as a journal id. */
  readonly onApplied: (nextId: number) => void;
}

interface ReadPlace extends Place {
  reading: number;
  next: number;
  applied: number;
}

/**
 * A part of the journal as a source of records: rows stand in the partition that Kafka has them in, with their ids as
 * offsets, and every place moves along with every page. The next page is read while the last one is worked on.
 */
export class JournalSource implements RecordSource {
  readonly failed = new Promise<Error>(() => {});
  /** Settles when the whole part is applied. */
  readonly finished: Promise<void>;
  readonly #options: JournalSourceOptions;
  readonly #end: number;
  readonly #places: Map<string, ReadPlace>;
  readonly #byTopic: ReadonlyMap<string, readonly ReadPlace[]>;
  readonly #finish = Promise.withResolvers<void>();
  readonly #changed = new Signal();
  #readings = 1;
  #ahead: { readonly fromId: number; readonly page: Promise<JournalPage> } | undefined;

  constructor(options: JournalSourceOptions) {
    this.#options = options;
    this.#end = options.delta.finalId + 1;
    this.finished = this.#finish.promise;
    this.#places = new Map(
      options.places.map(({ topic, partition }) => [
        placeText({ topic, partition }),
        { topic, partition, reading: 1, next: 0, applied: 0 },
      ]),
    );
    this.#byTopic = Map.groupBy(
      [...this.#places.values()].sort((a, b) => a.partition - b.partition),
      ({ topic }) => topic,
    );
  }

  async start({ onAssigned }: SourceHandlers): Promise<void> {
    const starts = await onAssigned(
      [...this.#places.values()].map(({ topic, partition, reading }) => ({ topic, partition, reading })),
    );
    for (const { topic, partition, offset = 0 } of starts) {
      const place = this.#places.get(placeText({ topic, partition }));
      if (place) Object.assign(place, { next: offset, applied: offset });
    }
    this.#noteApplied();
  }

  async take({ recordsMax, waitMs }: { recordsMax: number; waitMs: number }): Promise<readonly RawBatch[]> {
    const fromId = this.#nextId;
    if (fromId >= this.#end) {
      await this.#changed.wait(Math.min(waitMs, idleMs));
      return [];
    }
    const reading = this.#readings;
    const page = await this.#pageFrom(fromId, recordsMax);
    const rows = await this.#recordsOf(page);
    // Somebody wants to read on elsewhere: this page is of no use any more.
    if (reading !== this.#readings) return [];
    if (page.nextId < this.#end) this.#readAhead(page.nextId, recordsMax);
    return this.#batchesOf(rows, page.nextId);
  }

  seek(place: Place, offset: number): number {
    const reading = ++this.#readings;
    const own = this.#places.get(placeText(place));
    if (own) Object.assign(own, { reading, next: offset });
    this.#changed.raise();
    return reading;
  }

  /** Windows are closed by the events' own time here: the wall clock is far ahead of what is replayed. */
  isCaughtUp(): boolean {
    return false;
  }

  reportApplied(offsets: readonly (Place & { readonly offset: number })[]): void {
    for (const { offset, ...place } of offsets) {
      const own = this.#places.get(placeText(place));
      if (own) own.applied = Math.max(own.applied, offset);
    }
    this.#noteApplied();
  }

  async stop(): Promise<void> {
    await this.#ahead?.page.catch(() => undefined);
  }

  get #nextId(): number {
    return Math.min(...[...this.#places.values()].map(({ next }) => next));
  }

  #noteApplied(): void {
    const applied = Math.min(...[...this.#places.values()].map((place) => place.applied));
    this.#options.onApplied(applied);
    if (applied >= this.#end) this.#finish.resolve();
  }

  #pageFrom(fromId: number, rowsMax: number): Promise<JournalPage> {
    const ahead = this.#ahead;
    this.#ahead = undefined;
    if (ahead?.fromId === fromId) return ahead.page;
    return this.#read(fromId, rowsMax);
  }

  #readAhead(fromId: number, rowsMax: number): void {
    const page = this.#read(fromId, rowsMax);
    // Whoever takes the page hears of it.
    page.catch(() => undefined);
    this.#ahead = { fromId, page };
  }

  #read(fromId: number, rowsMax: number): Promise<JournalPage> {
    const { readPage, delta, eventTypes } = this.#options;
    return readPage({ delta, fromId: Math.max(fromId, delta.firstId), eventTypes, rowsMax });
  }

  async #recordsOf({ rows: { bytes, starts } }: JournalPage): Promise<readonly JournalRecord[]> {
    const { kinds } = this.#options;
    const records = new Array<JournalRecord>(starts.length);
    for (const [index, start] of starts.entries()) {
      const schema = schemaOfRow(bytes, start);
      records[index] = new JournalRecord(bytes, start, kinds.find(schema) ?? (await kinds.learn(schema)));
    }
    return records;
  }

  #batchesOf(rows: readonly JournalRecord[], nextId: number): readonly RawBatch[] {
    const byPlace = new Map<ReadPlace, RawRecord[]>();
    for (const row of rows) {
      const places = this.#byTopic.get(row.kind.topic) ?? [];
      const place = places[partitionOfKey(row, places.length)];
      if (!place || row.offset < place.next) continue;
      const records = byPlace.get(place);
      if (records) records.push(row);
      else byPlace.set(place, [row]);
    }
    return [...this.#places.values()]
      .filter((place) => place.next < nextId)
      .map((place) => {
        const { topic, partition, reading, next: fromOffset } = place;
        place.next = nextId;
        return {
          topic,
          partition,
          reading,
          fromOffset,
          records: byPlace.get(place) ?? [],
          nextOffset: nextId,
        };
      });
  }
}
