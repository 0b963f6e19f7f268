import type { Logger } from 'pino';
import type { PlaceInput } from './compute-batch.ts';
import { type OwnedPlace, type OwnedTask, ownedPlace, tailOf, taskTailOf } from './place-tail.ts';
import type { GoneRecords, PlaceState, RecordSource, StartOffset } from './ports.ts';
import { type DecodedBatch, type Place, placeText } from './record.ts';

const unknownPlace: PlaceState = { checkpoint: undefined, task: undefined, parked: [] };

export interface LanePlacesOptions {
  /** Reads a place from there on, after a pause if there is one; answers with the number of that reading. */
  readonly seek: RecordSource['seek'];
  readonly retryDelayMs: number;
  /** Told how many places are stopped whenever that changes. */
  readonly onStopped: (places: number) => void;
  readonly log: Logger;
}

/** The places that one process has, how far each is, and which batches continue them. */
export class LanePlaces {
  readonly #options: LanePlacesOptions;
  #owned = new Map<string, OwnedPlace>();
  #stopped = 0;

  constructor(options: LanePlacesOptions) {
    this.#options = options;
  }

  get all(): readonly OwnedPlace[] {
    return [...this.#owned.values()];
  }

  /** From now on these, and no other. */
  assign(
    places: readonly (Place & { readonly reading: number })[],
    stored: readonly PlaceState[],
  ): readonly StartOffset[] {
    const tasks = new Map(
      places.map(({ partition }): [number, OwnedTask] => [partition, { partition, tail: taskTailOf([]) }]),
    );
    this.#owned = new Map(
      places.flatMap((place, index) => {
        const task = tasks.get(place.partition);
        if (!task) return [];
        return [[placeText(place), ownedPlace(place, task, stored[index] ?? unknownPlace)]];
      }),
    );
    this.restore(this.all, stored);
    this.#tellStopped();
    return this.all.map(({ place, tail }) => ({ ...place, offset: tail.offset, log: tail.log }));
  }

  /** What is stored counts, and nothing else. */
  restore(owned: readonly OwnedPlace[], stored: readonly PlaceState[]): void {
    const known = owned.map((place, index) => ({ place, state: stored[index] ?? unknownPlace }));
    for (const { place, state } of known) place.tail = tailOf(state);
    for (const [task, own] of Map.groupBy(known, ({ place }) => place.task)) {
      task.tail = taskTailOf(own.map(({ state }) => state));
    }
  }

  /** Places by task. */
  get tasks(): ReadonlyMap<OwnedTask, readonly OwnedPlace[]> {
    return Map.groupBy(this.all, ({ task }) => task);
  }

  isCurrent({ owned, epoch }: PlaceInput): boolean {
    return this.#owned.get(owned.name) === owned && epoch === owned.epoch;
  }

  /** What a batch has for this lane: nothing when it belongs to an earlier reading, or to nobody here. */
  accept(batch: DecodedBatch): PlaceInput | undefined {
    const owned = this.#owned.get(placeText(batch));
    if (!owned || batch.reading !== owned.reading) return undefined;
    if (batch.logBreak) return this.#beginAnew(owned, batch);
    const { offset } = owned.tail;
    if (offset !== undefined && batch.fromOffset > offset) {
      if (owned.expectsOffset) this.gone({ ...batch, firstOffset: batch.fromOffset });
      else this.#readFrom(owned, offset);
      return undefined;
    }
    if (offset !== undefined && batch.fromOffset < offset) {
      // Nobody has asked whether the log that it was read in is that of the checkpoint: it is read from there on.
      this.#readFrom(owned, offset);
      return undefined;
    }
    owned.expectsOffset = false;
    owned.firstOffset ??= batch.fromOffset;
    if (batch.stopped) this.#waitFor(owned, batch.stopped, batch);
    if (batch.nextOffset <= batch.fromOffset) return undefined;
    const { records, nextOffset, log } = batch;
    return { owned, epoch: owned.epoch, fromOffset: offset, records, nextOffset, log };
  }

  /** What was applied stays applied: whatever comes again is known by its id. Only the checkpoint goes back. */
  #beginAnew(owned: OwnedPlace, { nextOffset, log, logBreak }: DecodedBatch): PlaceInput | undefined {
    const { offset } = owned.tail;
    owned.expectsOffset = true;
    if (offset === undefined) return undefined;
    return { owned, epoch: owned.epoch, fromOffset: offset, records: [], nextOffset, log, logBreak };
  }

  /**
   * Whether a place whose next records are gone may be read from where its topic begins now: only where the projection has never
   * been. What it has read elsewhere does not fit together with what would come.
   */
  gone({ reading, firstOffset, ...at }: GoneRecords): boolean {
    const owned = this.#owned.get(placeText(at));
    if (owned?.reading !== reading) return false;
    const { offset: checkpoint } = owned.tail;
    if (checkpoint === undefined) return true;
    if (!owned.isStopped)
      this.#options.log.error(
        { ...owned.place, checkpoint, firstOffset },
        'Records after the checkpoint are gone from the topic: the partition is not read any further, the others are',
      );
    owned.isStopped = true;
    this.#tellStopped();
    return false;
  }

  #tellStopped(): void {
    const stopped = this.all.filter(({ isStopped }) => isStopped).length;
    if (stopped !== this.#stopped) this.#options.onStopped(stopped);
    this.#stopped = stopped;
  }

  /** A record that cannot be decoded now, but perhaps later: the place waits at it, and the others go on. */
  #waitFor(owned: OwnedPlace, stopped: Error, batch: DecodedBatch): void {
    const { log, retryDelayMs, seek } = this.#options;
    const offset = batch.nextOffset;
    if (owned.waitsAt !== offset) {
      log.warn(
        { ...owned.place, offset, err: stopped },
        'A partition waits at a record that cannot be decoded now',
      );
      owned.waitsAt = offset;
    }
    owned.reading = seek(owned.place, offset, { afterMs: retryDelayMs, log: batch.log ?? owned.tail.log });
  }

  /** What the tail has not passed of an input. */
  unapplied(input: PlaceInput): readonly PlaceInput[] {
    const { owned, fromOffset } = input;
    const { offset } = owned.tail;
    if (input.logBreak) {
      // Whether it is done already, and by whom, is found out by whoever reads from the checkpoint.
      this.readAgain(owned);
      return [];
    }
    if (fromOffset !== undefined && (offset === undefined || offset < fromOffset)) {
      // What lies in between was dropped: going on here would lose it.
      this.readAgain(owned);
      return [];
    }
    if (offset === undefined) return [input];
    if (input.nextOffset <= offset)
      return input.wallClockMs === undefined ? [] : [{ ...input, records: [], nextOffset: offset }];
    return [{ ...input, records: input.records.filter(({ raw }) => raw.offset >= offset) }];
  }

  /** From its checkpoint on; what was taken of it is dropped. */
  readAgain(owned: OwnedPlace): void {
    const offset = owned.tail.offset ?? owned.firstOffset;
    if (offset === undefined) return;
    this.#readFrom(owned, offset);
    owned.epoch++;
  }

  /** What was accepted of it before is on its way and counts. */
  #readFrom(owned: OwnedPlace, offset: number): void {
    owned.reading = this.#options.seek(owned.place, offset, { log: owned.tail.log });
    owned.expectsOffset = true;
  }
}
