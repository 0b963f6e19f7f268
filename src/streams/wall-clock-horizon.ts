import type { Logger } from 'pino';
import type { PendingSince } from './ports.ts';

export interface WallClockHorizonOptions {
  /** Without it nothing lies between the events and their topics, and the wall clock alone counts. */
  readonly pendingSince: PendingSince | undefined;
  readonly clock: () => number;
  readonly log: Logger;
}

/** Up to where windows may be closed by the wall clock, and since when that is known. */
export interface Horizon {
  readonly untilMs: number;
  /** What was read of the topics before that may lack what the answer takes for sent. */
  readonly knownSinceMs: number;
}

const unbounded: Horizon = {
  untilMs: Number.POSITIVE_INFINITY,
  knownSinceMs: Number.NEGATIVE_INFINITY,
};
const unknown: Horizon = { untilMs: Number.NEGATIVE_INFINITY, knownSinceMs: Number.NEGATIVE_INFINITY };

/**
 * Having read a topic to its end does not mean that nothing is on its way: events may wait in the journal, and a window that
 * the wall clock closes before them makes all of them late. So the clock counts only as far as nothing is pending, and where
 * nobody can tell, windows stay open.
 */
export class WallClockHorizon {
  readonly #options: WallClockHorizonOptions;
  #horizon: Horizon;
  #isTroubled = false;

  constructor(options: WallClockHorizonOptions) {
    this.#options = options;
    this.#horizon = options.pendingSince ? unknown : unbounded;
  }

  get current(): Horizon {
    return this.#horizon;
  }

  /** Asks how far it is now. Without an answer, what was known before still holds. */
  async look(): Promise<void> {
    const { pendingSince, clock, log } = this.#options;
    if (!pendingSince) return;
    const askedAtMs = clock();
    try {
      const pendingMs = await pendingSince();
      this.#horizon = { untilMs: Math.min(askedAtMs, pendingMs ?? askedAtMs), knownSinceMs: clock() };
      this.#isTroubled = false;
    } catch (error) {
      if (!this.#isTroubled)
        log.warn(
          { err: error },
          'Nobody can tell whether events are still on their way to the topics; windows stay open until then',
        );
      this.#isTroubled = true;
    }
  }
}
