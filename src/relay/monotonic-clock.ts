/** A clock that nobody sets: it tells how much time has gone by, and calls when some has. */
export interface MonotonicClock {
  /** Milliseconds since some moment. */
  now(): number;
  /** Calls once, after so long; what it answers with calls that off. */
  after(timeMs: number, call: () => void): () => void;
}

/** Does not keep a process alive that has nothing else to do. */
export const processClock: MonotonicClock = {
  now: () => performance.now(),
  after: (timeMs, call) => {
    const timer = setTimeout(call, timeMs).unref();
    return () => clearTimeout(timer);
  },
};
