/** Something that is to be handed on, with the time of the stream at which it came to be. */
export interface Update {
  readonly whenMs: number;
}

/** How often updates of one thing are let through, and the one that is not. A JSON value: it is part of a state. */
export interface Pace<U extends Update> {
  /** When the last one was let through. */
  readonly lastMs?: number;
  /** The latest one that was not: it goes when its time has come, unless a later one takes its place. */
  readonly waiting?: U;
  /** Set when one could not be handed on: nothing is tried before that. */
  readonly retryAtMs?: number;
}

export interface Passed<U extends Update> {
  /** In the order in which they came to be. */
  readonly passed: readonly U[];
  readonly pace: Pace<U>;
}

/** When what waits may go. */
export const waitsUntilMs = <U extends Update>(
  { lastMs = Number.NEGATIVE_INFINITY, waiting, retryAtMs }: Pace<U>,
  pauseMs: number,
): number => (waiting ? (retryAtMs ?? lastMs + pauseMs) : Number.POSITIVE_INFINITY);

/** Lets go what waits, if its time has come. It came to be at that time, however late somebody looks. */
export const release = <U extends Update>(pace: Pace<U>, untilMs: number, pauseMs: number): Passed<U> => {
  const whenMs = waitsUntilMs(pace, pauseMs);
  if (!pace.waiting || whenMs > untilMs) return { passed: [], pace };
  return { passed: [{ ...pace.waiting, whenMs }], pace: letThroughAt(whenMs, pauseMs) };
};

/** A new one: it goes at once if the pause is over, and waits otherwise. What waited goes first if its time had come before. */
export const offer = <U extends Update>(before: Pace<U>, update: U, pauseMs: number): Passed<U> => {
  // What was refused is tried again by itself: nothing else may be refused with it.
  if (before.retryAtMs !== undefined) return { passed: [], pace: { ...before, waiting: update } };
  const { passed, pace } = release(before, update.whenMs, pauseMs);
  const { lastMs = Number.NEGATIVE_INFINITY } = pace;
  return update.whenMs >= lastMs + pauseMs
    ? { passed: [...passed, update], pace: letThroughAt(update.whenMs, pauseMs) }
    : { passed, pace: { ...pace, waiting: update } };
};

/** The latest of what could not be handed on is kept, and tried again then. */
export const postponed = <U extends Update>(pace: Pace<U>, refused: U | undefined, toMs: number): Pace<U> => {
  const waiting = pace.waiting ?? refused;
  return waiting ? { ...pace, waiting, retryAtMs: toMs } : pace;
};

const letThroughAt = <U extends Update>(lastMs: number, pauseMs: number): Pace<U> =>
  pauseMs === 0 ? {} : { lastMs };
