import { idAt } from '../derived-id.ts';
import type { DueHandler, Step, StepContext } from '../graph.ts';
import { atTime } from '../piped-records.ts';
import type { RowTable, StateDefinition } from '../tables.ts';
import { positive } from '../windows.ts';

/** A state that goes away when it has not changed for a while, and how its steps say so. */
export interface ExpiryOptions {
  /**
   * How long after its last change a key's state goes away, by the time of the stream, or by the wall clock when the stream is
   * quiet. What follows is told so by null; the next record of the key begins anew.
   */
  readonly expireAfterMs: number;
}

/** As it is stored: with the time from which on it is gone. Missing where no time was known yet when it was written. */
interface Expiring {
  readonly kept?: unknown;
  readonly expiresAtMs?: number;
}

export const expiringState = (
  name: string,
  { table, expireAfterMs }: Partial<ExpiryOptions> & { readonly table?: RowTable | undefined },
): StateDefinition => {
  const own = table ? { name, table } : { name };
  if (expireAfterMs === undefined) return own;
  positive('expireAfterMs', expireAfterMs);
  // Rows of a read model have no due time: that is kept beside them.
  return { ...own, expireAfterMs, ...(table && { expiry: { name: `${name} expiry` } }) };
};

/** Where the time is kept at which a state is over. */
export const expiryOf = (state: StateDefinition): StateDefinition => state.expiry ?? state;

export const keptOf = (stored: unknown): unknown => (stored as Expiring | undefined)?.kept;

export const isOver = (stored: unknown, streamTimeMs: number): boolean =>
  ((stored as Expiring | undefined)?.expiresAtMs ?? Number.POSITIVE_INFINITY) <= streamTimeMs;

/** When a change made at that time is over; undefined before time has begun, as when all records so far were early. */
export const expiresAtMs = (
  { expireAfterMs }: Partial<ExpiryOptions>,
  streamTimeMs: number,
): number | undefined =>
  expireAfterMs === undefined || !Number.isFinite(streamTimeMs) ? undefined : streamTimeMs + expireAfterMs;

/** Changes a state that may expire: its time begins anew. */
export const writeState = (at: StepContext, state: StateDefinition, key: string, value: unknown): void => {
  const { place, run } = at;
  if (state.expireAfterMs === undefined || (value === undefined && !state.expiry)) {
    run.write({ place, state, key, value });
    return;
  }
  const dueAtMs = expiresAtMs(state, at.task.streamTimeMs);
  const due = dueAtMs === undefined ? {} : { dueAtMs };
  const times = dueAtMs === undefined ? {} : { expiresAtMs: dueAtMs };
  if (!state.expiry) {
    run.write({ place, state, key, value: { kept: value, ...times }, ...due });
    return;
  }
  run.write({ place, state, key, value });
  run.write({ place, state: state.expiry, key, value: value === undefined ? undefined : times, ...due });
};

const goneName = 'expired';

/**
 * Tells what follows that a key's state is over, where nobody has yet: in the order of time this comes before the record at hand,
 * however the records are batched. The state must be at hand.
 */
export const tellIfExpired = (
  at: StepContext,
  {
    state,
    topology,
    key,
  }: { readonly state: StateDefinition; readonly topology: string; readonly key: string },
  next: Step,
): void => {
  if (state.expireAfterMs === undefined) return;
  const { name } = expiryOf(state);
  const stored = at.run.find(name, key)?.value as Expiring | undefined;
  const timeMs = stored?.expiresAtMs;
  if (timeMs === undefined || timeMs > at.task.streamTimeMs) return;
  const { origin } = at;
  at.origin = { id: resultId(topology, name, key, { name: goneName, timeMs }), timeMs };
  atTime(at, { placeTimeMs: timeMs, streamTimeMs: timeMs }, () => next(key, null, at));
  at.origin = origin;
};

/** The same id, whoever finds that it is over. */
export const resultId = (
  topology: string,
  state: string,
  key: string,
  { name, timeMs }: { readonly name: string; readonly timeMs: number },
): string => idAt(timeMs, `${topology} ${state} ${key} ${name}`);

export const expiryHandler = (state: StateDefinition): DueHandler => ({
  close: ({ value, untilMs, handOn, drop }) => {
    const { expiresAtMs: timeMs } = value as Expiring;
    if (timeMs === undefined) return { value };
    if (timeMs > untilMs) return { value, dueAtMs: timeMs };
    handOn({ name: goneName, timeMs, value: null, movesNoClock: true });
    if (state.expiry) drop(state);
    return undefined;
  },
  postpone: ({ value, toMs }) => ({ value, dueAtMs: toMs }),
});
