import { setImmediate } from 'node:timers/promises';
import type { MonotonicClock } from '../../src/relay/monotonic-clock.ts';

export interface HandClock extends MonotonicClock {
  /** Lets so much time go by; what falls due in it is called in its order and comes to its end, if it needs no real time. */
  advance(timeMs: number): Promise<void>;
  /** How many calls are still to come. */
  readonly waiting: number;
}

/** Turns of the event loop in which a chain of promises without real waiting comes to its end. */
const turnsMax = 5;

/** A clock that a spec moves. */
export const createHandClock = (): HandClock => {
  let now = 0;
  const due = new Map<symbol, { readonly at: number; readonly call: () => void }>();
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < turnsMax; turn++) await setImmediate();
  };
  const nextUntil = (end: number) =>
    [...due].filter(([, { at }]) => at <= end).toSorted(([, one], [, other]) => one.at - other.at)[0];
  return {
    now: () => now,
    after: (timeMs, call) => {
      const id = Symbol('due');
      due.set(id, { at: now + timeMs, call });
      return () => void due.delete(id);
    },
    advance: async (timeMs) => {
      const end = now + timeMs;
      await settle();
      for (let next = nextUntil(end); next; next = nextUntil(end)) {
        const [id, { at, call }] = next;
        due.delete(id);
        now = at;
        call();
        await settle();
      }
      now = end;
    },
    get waiting() {
      return due.size;
    },
  };
};
