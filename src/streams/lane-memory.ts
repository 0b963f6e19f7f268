import type { BatchRun, KnownState, StateView } from './batch-run.ts';
import { GlobalRows } from './joins/global-rows.ts';
import { type Place, placeText } from './record.ts';
import type { GlobalState } from './tables.ts';

/**
 * Handled ids are kept by stretches of event time this long. Never to be changed: a duplicate is looked for where the first
 * one was stored.
 */
export const handledBucketMs = 10_000;

export const bucketOf = (timeMs: number): number => Math.floor(timeMs / handledBucketMs) * handledBucketMs;

/**
 * Buckets that one of so many batches has used stay, however many ids are in them: with many events a second the stretches
 * that every batch needs have more than are to be remembered, and each batch would read them from the store again.
 */
const batchesInUse = 16;

interface Bucket {
  readonly ids: Set<string>;
  /** The batch that has used it last. */
  usedIn: number;
}

/** Ids by place and bucket; the bucket that was used longest ago goes first when there are too many ids. */
export class HandledMemory {
  readonly #idsMax: number;
  readonly #buckets = new Map<string, Bucket>();
  #count = 0;
  #batches = 0;

  constructor(idsMax: number) {
    this.#idsMax = idsMax;
  }

  find(place: string, bucketStartMs: number): ReadonlySet<string> | undefined {
    return this.#buckets.get(`${bucketStartMs} ${place}`)?.ids;
  }

  /** Adds ids to a bucket that is known; ids of a bucket that is not are found in the store. */
  add(place: string, bucketStartMs: number, ids: Iterable<string>): void {
    const bucket = this.#buckets.get(`${bucketStartMs} ${place}`);
    if (bucket) this.#fill(bucket.ids, ids);
  }

  /**
   * Opens buckets before what the store has of them is read: a batch that is committed in the meantime adds its ids here,
   * and the store's answer may not have them yet. When reading fails, they are closed again.
   */
  async load(
    wanted: readonly { readonly place: string; readonly bucketStartMs: number }[],
    read: () => Promise<readonly (readonly string[])[]>,
  ): Promise<void> {
    const opened = wanted.map(({ place, bucketStartMs }) => {
      const ids = new Set<string>();
      this.#buckets.set(`${bucketStartMs} ${place}`, { ids, usedIn: this.#batches });
      return ids;
    });
    try {
      const found = await read();
      for (const [index, bucket] of opened.entries()) this.#fill(bucket, found[index] ?? []);
    } catch (error) {
      for (const { place, bucketStartMs } of wanted) this.#buckets.delete(`${bucketStartMs} ${place}`);
      throw error;
    }
  }

  /** Those that a batch needs are the last to go. */
  touch(place: string, bucketStartMs: number): boolean {
    const id = `${bucketStartMs} ${place}`;
    const bucket = this.#buckets.get(id);
    if (!bucket) return false;
    this.#buckets.delete(id);
    this.#buckets.set(id, bucket);
    bucket.usedIn = this.#batches;
    return true;
  }

  /** Before each batch. */
  trim(): void {
    this.#batches++;
    for (const [id, { ids, usedIn }] of this.#buckets) {
      if (this.#count <= this.#idsMax || usedIn > this.#batches - batchesInUse) return;
      this.#count -= ids.size;
      this.#buckets.delete(id);
    }
  }

  #fill(bucket: Set<string>, ids: Iterable<string>): void {
    const before = bucket.size;
    for (const id of ids) bucket.add(id);
    this.#count += bucket.size - before;
  }
}

/** States that were read or written lately, as they are committed. Two generations: what is not used for a whole one goes. */
export class StateMemory {
  readonly #keysMax: number;
  #young = new Map<string, KnownState>();
  #old = new Map<string, KnownState>();

  constructor(keysMax: number) {
    this.#keysMax = keysMax;
  }

  find(state: string, key: string): KnownState | undefined {
    const id = `${state} ${key}`;
    const young = this.#young.get(id);
    if (young) return young;
    const old = this.#old.get(id);
    if (old) this.#young.set(id, old);
    return old;
  }

  keep(state: string, key: string, known: KnownState): void {
    this.#young.set(`${state} ${key}`, { value: known.value });
  }

  trim(): void {
    if (this.#young.size <= this.#keysMax) return;
    this.#old = this.#young;
    this.#young = new Map();
  }
}

/** What one batch has handled: ids by place and bucket. */
export class HandledByBatch {
  readonly #buckets = new Map<string, Map<number, Set<string>>>();
  readonly #places = new Map<string, Place>();

  find(place: string, bucketStartMs: number): ReadonlySet<string> | undefined {
    return this.#buckets.get(place)?.get(bucketStartMs);
  }

  /** The ids of a stretch, to be looked into and added to. */
  open(place: Place, bucketStartMs: number): Set<string> {
    const name = placeText(place);
    let buckets = this.#buckets.get(name);
    if (!buckets) {
      buckets = new Map();
      this.#buckets.set(name, buckets);
      this.#places.set(name, place);
    }
    const bucket = buckets.get(bucketStartMs) ?? new Set();
    buckets.set(bucketStartMs, bucket);
    return bucket;
  }

  get isEmpty(): boolean {
    return this.#buckets.size === 0;
  }

  *entries(): Generator<{ place: Place; bucketStartMs: number; ids: ReadonlySet<string> }> {
    for (const [name, buckets] of this.#buckets) {
      const place = this.#places.get(name);
      if (place) for (const [bucketStartMs, ids] of buckets) yield { place, bucketStartMs, ids };
    }
  }
}

/** A batch that has been computed and is not committed yet. */
export interface InFlight {
  readonly run: BatchRun;
  readonly handled: HandledByBatch;
}

/** All that is at hand: what is committed, and on top of it what is about to be. */
export class LaneMemory implements StateView {
  readonly handled: HandledMemory;
  readonly globalRows: GlobalRows;
  readonly #states: StateMemory;
  readonly #inFlight: InFlight[] = [];

  constructor(
    limits: { readonly handledIdsMax: number; readonly statesMax: number },
    globalStates: readonly GlobalState[],
  ) {
    this.handled = new HandledMemory(limits.handledIdsMax);
    this.globalRows = new GlobalRows(globalStates);
    this.#states = new StateMemory(limits.statesMax);
  }

  find(state: string, key: string): KnownState | undefined {
    for (let index = this.#inFlight.length - 1; index >= 0; index--) {
      const change = this.#inFlight[index]?.run.findChange(state, key);
      if (change) return change;
    }
    return (this.globalRows.has(state) ? this.globalRows : this.#states).find(state, key);
  }

  /** As the store has it. */
  keep(state: string, key: string, known: KnownState): void {
    (this.globalRows.has(state) ? this.globalRows : this.#states).keep(state, key, known);
  }

  /** Everything that is known to be handled in a stretch; undefined when what is committed of it is not at hand. */
  handledIn(place: string, bucketStartMs: number): readonly ReadonlySet<string>[] | undefined {
    const committed = this.handled.find(place, bucketStartMs);
    if (!committed) return undefined;
    const inFlight = this.#inFlight.flatMap(({ handled }) => handled.find(place, bucketStartMs) ?? []);
    return [committed, ...inFlight];
  }

  get inFlight(): readonly InFlight[] {
    return this.#inFlight;
  }

  push(batch: InFlight): void {
    this.#inFlight.push(batch);
  }

  /** The oldest batch in flight is committed: from now on it is part of what is. */
  commit(batch: InFlight): void {
    const index = this.#inFlight.indexOf(batch);
    if (index >= 0) this.#inFlight.splice(index, 1);
    for (const { place, bucketStartMs, ids } of batch.handled.entries()) {
      this.handled.add(placeText(place), bucketStartMs, ids);
    }
    for (const { state, key, value } of batch.run.states) {
      if (this.globalRows.has(state.name)) this.globalRows.commit(state.name, key, { value });
      else this.#states.keep(state.name, key, { value });
    }
  }

  /** Between two batches only: what the one being computed has found here must stay until it is done. */
  trim(): void {
    this.handled.trim();
    this.#states.trim();
  }
}
