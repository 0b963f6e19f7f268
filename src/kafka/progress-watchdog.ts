import type { Logger } from 'pino';
import type { Place } from '../streams/record.ts';

export interface SilentPlace extends Place {
  /** The offset that is asked for; undefined when not even that is known yet. */
  readonly offset: number | undefined;
}

export interface WatchdogOptions {
  /** Silence after which something is wrong, if there is anything to read at all. */
  readonly stallMs: number;
  readonly clock: () => number;
  /** Places that are asked for and have not been heard of since then. */
  readonly silentSince: (timeMs: number) => readonly SilentPlace[];
  /** Where the topic's partitions end, as the broker says when it is asked anew. */
  readonly endOffsets: (topic: string) => Promise<ReadonlyMap<number, number>>;
  readonly restart: () => Promise<void>;
  readonly log: Logger;
}

const lookEveryMsMax = 10_000;
const patienceMax = 8;

/**
 * kafkajs is known to stop fetching without a word. When a place has been silent for too long and the broker, asked on a
 * connection of its own, has something for it, that is said aloud and the consumer is started anew.
 */
export class ProgressWatchdog {
  readonly #options: WatchdogOptions;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> = Promise.resolve();
  /** Grows with each restart that did not help, so that a partition nobody can read does not keep all others from being read. */
  #patience = 1;
  #restartedAtMs: number | undefined;

  constructor(options: WatchdogOptions) {
    this.#options = options;
  }

  start(): void {
    const everyMs = Math.min(lookEveryMsMax, Math.ceil(this.#options.stallMs / 2));
    this.#timer = setInterval(() => {
      this.#looking = this.#looking.then(() => this.look());
    }, everyMs);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  async look(): Promise<void> {
    const { stallMs, clock, silentSince, log, restart } = this.#options;
    const silent = silentSince(clock() - stallMs * this.#patience);
    if (silent.length === 0) {
      this.#calmDown();
      return;
    }
    try {
      const stalled = await this.#stalledAmong(silent);
      if (stalled.length === 0) return;
      log.error(
        { places: stalled, stallMs },
        'Records wait at the broker and none arrive: the consumer is started anew',
      );
      this.#patience = Math.min(patienceMax, this.#patience * 2);
      this.#restartedAtMs = clock();
      await restart();
    } catch (error) {
      // Whether there is anything to read is not known then: a broker that does not answer is not a consumer that sleeps.
      log.debug({ err: error }, 'The broker does not say where the topics end');
    }
  }

  /** Being assigned anew is no progress: it helped if all places were heard of a good while after that. */
  #calmDown(): void {
    const { clock, stallMs, silentSince } = this.#options;
    if (this.#restartedAtMs === undefined) return;
    const provenAtMs = this.#restartedAtMs + stallMs;
    if (clock() < provenAtMs || silentSince(provenAtMs).length > 0) return;
    this.#patience = 1;
    this.#restartedAtMs = undefined;
  }

  async #stalledAmong(silent: readonly SilentPlace[]): Promise<readonly (SilentPlace & { end: number })[]> {
    const ends = new Map<string, ReadonlyMap<number, number>>();
    for (const topic of new Set(silent.map((place) => place.topic))) {
      ends.set(topic, await this.#options.endOffsets(topic));
    }
    return silent.flatMap((place) => {
      const end = ends.get(place.topic)?.get(place.partition) ?? 0;
      return end > (place.offset ?? 0) ? [{ ...place, end }] : [];
    });
  }
}
