import type { Logger } from 'pino';
import type { PlaceInput } from './compute-batch.ts';
import { type OwnedPlace, ownedPlace, tailOf } from './place-tail.ts';
import type { Move, PlaceState, RecordSource, StartOffset } from './ports.ts';
import { type DecodedBatch, type Place, placeText } from './record.ts';

const unknownPlace: PlaceState = { checkpoint: undefined, parked: [] };

export interface LanePlacesOptions {
  /** Reads a place from there on, after a pause if there is one; answers with the number of that reading. */
  readonly seek: RecordSource['seek'];
  readonly retryDelayMs: number;
  readonly log: Logger;
}

/** The places that one process has, how far each is, and which batches continue them. */
export class LanePlaces {
  readonly #options: LanePlacesOptions;
  #owned = new Map<string, OwnedPlace>();

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
    this.#owned = new Map(
      places.map((place, index) => [
        placeText(place),
        ownedPlace(place, place.reading, stored[index] ?? unknownPlace),
      ]),
    );
    return this.all.map(({ place, tail }) => ({ ...place, offset: tail.offset }));
  }

  /** What is stored counts, and nothing else. */
  restore(owned: readonly OwnedPlace[], stored: readonly PlaceState[]): void {
    for (const [index, place] of owned.entries()) place.tail = tailOf(stored[index] ?? unknownPlace);
  }

  isCurrent({ owned, epoch }: PlaceInput): boolean {
    return this.#owned.get(owned.name) === owned && epoch === owned.epoch;
  }

  /** What a batch has for this lane: nothing when it belongs to an earlier reading, or to nobody here. */
  accept(batch: DecodedBatch): PlaceInput | undefined {
    const owned = this.#owned.get(placeText(batch));
    if (!owned || batch.reading !== owned.reading) return undefined;
    const { offset } = owned.tail;
    if (offset !== undefined && batch.fromOffset > offset && !this.#isGone(owned, offset, batch.fromOffset)) {
      this.readAgain(owned);
      return undefined;
    }
    owned.expectsOffset = false;
    owned.firstOffset ??= batch.fromOffset;
    if (batch.stopped) this.#waitFor(owned, batch.stopped, batch.nextOffset);
    if (batch.nextOffset <= (offset ?? batch.fromOffset)) return undefined;
    const records =
      offset === undefined ? batch.records : batch.records.filter(({ raw }) => raw.offset >= offset);
    return { owned, epoch: owned.epoch, fromOffset: offset, records, nextOffset: batch.nextOffset };
  }

  /** The broker answers a question for what it no longer has with what comes next; anything else is a mistake in reading. */
  #isGone({ place, expectsOffset }: OwnedPlace, checkpoint: number, fromOffset: number): boolean {
    if (!expectsOffset) return false;
    this.#options.log.error(
      { ...place, checkpoint, fromOffset },
      'Records after the checkpoint are gone from the topic; the projection goes on with what is left',
    );
    return true;
  }

  /** A record that cannot be decoded now, but perhaps later: the place waits at it, and the others go on. */
  #waitFor(owned: OwnedPlace, stopped: Error, offset: number): void {
    const { log, retryDelayMs, seek } = this.#options;
    if (owned.waitsAt !== offset) {
      log.warn(
        { ...owned.place, offset, err: stopped },
        'A partition waits at a record that cannot be decoded now',
      );
      owned.waitsAt = offset;
    }
    owned.reading = seek(owned.place, offset, { afterMs: retryDelayMs });
  }

  /** What the tail has not passed of an input. */
  unapplied(input: PlaceInput): readonly PlaceInput[] {
    const { owned, fromOffset } = input;
    const { offset } = owned.tail;
    if (fromOffset !== undefined && (offset === undefined || offset < fromOffset)) {
      // What lies in between was dropped: going on here would lose it.
      this.readAgain(owned);
      return [];
    }
    if (offset === undefined) return [input];
    if (input.nextOffset <= offset && input.wallClockMs === undefined) return [];
    return [{ ...input, records: input.records.filter(({ raw }) => raw.offset >= offset) }];
  }

  /** From its checkpoint on; what was taken of it is dropped. */
  readAgain(owned: OwnedPlace): void {
    const offset = owned.tail.offset ?? owned.firstOffset;
    if (offset === undefined) return;
    owned.reading = this.#options.seek(owned.place, offset);
    owned.epoch++;
    owned.expectsOffset = true;
  }

  /** Topics that share states share them by partition: whoever writes them must still have all of those. */
  siblingsOf(moving: readonly OwnedPlace[]): readonly Move[] {
    const partitions = new Set(moving.map(({ place }) => place.partition));
    return [...this.#owned.values()].flatMap((owned) => {
      const { offset, streamTimeMs } = owned.tail;
      if (moving.includes(owned) || offset === undefined || !partitions.has(owned.place.partition)) return [];
      return [{ ...owned.place, expectedOffset: offset, nextOffset: offset, streamTimeMs, lateRecords: 0 }];
    });
  }
}
