import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { SourceHandlers } from '../streams/ports.ts';
import { type Place, placeText } from '../streams/record.ts';
import type { RecordQueue } from './record-queue.ts';

export interface MembershipOptions {
  readonly queue: RecordQueue;
  readonly handlers: SourceHandlers;
  readonly startFrom: 'earliest' | 'latest';
  readonly retryDelayMs: number;
  /** Offsets that were applied before, by whoever had these places then. */
  readonly onKnown: (offsets: readonly (Place & { readonly offset: number })[]) => void;
  /**
   * Places that must not be read for now: they were added, and what is kept of their keys still lies elsewhere. Throws when
   * none may be read. Asked again and again until there are none.
   */
  readonly heldPlaces: (assigned: readonly Place[]) => Promise<readonly Place[]>;
  /** The ids that the topics have now. Throws where that is not known. */
  readonly topicIds: () => Promise<ReadonlyMap<string, string>>;
  readonly log: Logger;
}

/** Lets nothing be fetched of a place before it is known where to start in it, anew after each change in the group. */
export class Membership {
  readonly #options: MembershipOptions;
  #generation = 0;
  #holdsPlaces = false;
  #asking: Promise<void> = Promise.resolve();

  constructor(options: MembershipOptions) {
    this.#options = options;
  }

  leave(): void {
    this.#generation++;
    this.#options.queue.assign([]);
    if (!this.#holdsPlaces) return;
    this.#holdsPlaces = false;
    this.#options.handlers.onRevoked();
  }

  join(places: readonly Place[]): void {
    this.leave();
    const generation = this.#generation;
    const assigned = this.#options.queue.assign(places);
    this.#holdsPlaces = true;
    // One question at a time: the answer to an earlier one would overtake the next.
    this.#asking = this.#asking.then(() => this.#askWhereToStart(assigned, generation));
  }

  async #askWhereToStart(
    assigned: readonly (Place & { readonly reading: number })[],
    generation: number,
  ): Promise<void> {
    const { retryDelayMs, log } = this.#options;
    for (let tries = 0; generation === this.#generation; tries++) {
      try {
        const held = new Set((await this.#options.heldPlaces(assigned)).map(placeText));
        if (generation !== this.#generation) return;
        await this.#open(
          assigned.filter((place) => !held.has(placeText(place))),
          generation,
        );
        if (tries > 0) log.warn('It is known again where to go on; records flow');
        if (held.size > 0) void this.#joinAnewWhenFreed(assigned, generation);
        return;
      } catch (error) {
        // The group hears from this process all the while, so it keeps its places.
        if (tries === 0)
          log.error({ err: error }, 'It is not known where to go on reading; this is tried until it is');
        await pause(retryDelayMs, undefined, { ref: false });
      }
    }
  }

  async #open(
    assigned: readonly (Place & { readonly reading: number })[],
    generation: number,
  ): Promise<void> {
    const { queue, handlers, onKnown, topicIds } = this.#options;
    const starts = await handlers.onAssigned(assigned);
    const ids = await topicIds();
    if (generation !== this.#generation) return;
    const known = new Map(starts.map((start) => [placeText(start), start]));
    for (const place of assigned) {
      const start = known.get(placeText(place));
      const topicId = ids.get(place.topic);
      queue.open(place, start?.offset ?? this.#ruleOffset(), { log: start?.log, topicId });
    }
    onKnown(
      starts.flatMap(({ topic, partition, offset }) =>
        offset === undefined ? [] : [{ topic, partition, offset }],
      ),
    );
  }

  /** Those that are read meanwhile are asked for anew, too: what is kept of them has moved. */
  async #joinAnewWhenFreed(assigned: readonly Place[], generation: number): Promise<void> {
    const { heldPlaces, retryDelayMs, log } = this.#options;
    for (;;) {
      await pause(retryDelayMs, undefined, { ref: false });
      if (generation !== this.#generation) return;
      const held = await heldPlaces(assigned).catch(() => undefined);
      if (generation !== this.#generation) return;
      if (held?.length !== 0) continue;
      log.warn('The partitions that were added are read from now on');
      this.join(assigned.map(({ topic, partition }) => ({ topic, partition })));
      return;
    }
  }

  /**
   * Where to start if nobody has been there. The earliest is asked for as 0: whatever Kafka's own offsets say, history that
   * was not applied must not be missed. The latest is where the group stands, so that a second start misses nothing.
   */
  #ruleOffset(): number | undefined {
    return this.#options.startFrom === 'earliest' ? 0 : undefined;
  }
}
