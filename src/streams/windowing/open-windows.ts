import type { Aggregation } from '../kstream.ts';
import {
  closesAtMs,
  type FixedWindows,
  type SessionWindows,
  type SlidingWindows,
  type Windows,
  windowStarts,
} from '../windows.ts';
import type { Pace, Update } from './pace.ts';

/** What a window was at a moment, and the record that made it so. */
export interface WindowUpdate<S> extends Update {
  readonly startMs: number;
  readonly endMs: number;
  readonly value: S;
  /** Names the record. */
  readonly by: string;
  readonly timeMs: number;
}

/** A window with what has been made of its records so far. */
export interface OpenWindow<S> {
  readonly startMs: number;
  readonly endMs: number;
  readonly value: S;
  /** Set when it could not be handed on as final: it is not tried again before that. */
  readonly retryAtMs?: number;
  /** How often it is handed on before that. */
  readonly pace?: Pace<WindowUpdate<S>>;
}

/** A record that windows to come may need. */
export interface KeptRecord<V> {
  readonly timeMs: number;
  readonly value: V;
}

/** What is known of a key. */
export interface Opened<V, S> {
  readonly open: readonly OpenWindow<S>[];
  /** In the order in which they came; of sliding windows only. */
  readonly records?: readonly KeptRecord<V>[];
}

/** A record on its way into the windows of its key. */
export interface Arrival<V> {
  readonly key: string;
  readonly value: V;
  readonly timeMs: number;
  /** How far the stream is. */
  readonly streamTimeMs: number;
}

/** The windows with the record in them, and which of them are not as they were; undefined when all it belongs to are closed. */
export type TakeRecord<V, S> = (
  before: Opened<V, S>,
  arrival: Arrival<V>,
) => (Opened<V, S> & { readonly changed: ReadonlySet<OpenWindow<S>> }) | undefined;

export interface WindowAggregation<V, S> extends Aggregation<V, S> {
  readonly merge?: (first: S, second: S) => S;
}

const isOpenAt = (windows: Windows, window: { readonly endMs: number }, streamTimeMs: number): boolean =>
  closesAtMs(windows, window) > streamTimeMs;

const byStart = (a: { readonly startMs: number }, b: { readonly startMs: number }): number =>
  a.startMs - b.startMs;

export const takeFixed =
  <V, S>(windows: FixedWindows, { initial, fold }: Aggregation<V, S>): TakeRecord<V, S> =>
  ({ open }, { key, value, timeMs, streamTimeMs }) => {
    const starts = windowStarts(windows, timeMs).filter((startMs) =>
      isOpenAt(windows, { endMs: startMs + windows.sizeMs }, streamTimeMs),
    );
    if (starts.length === 0) return undefined;
    const changed = new Set<OpenWindow<S>>();
    const taking = new Set(starts);
    const take = (before: OpenWindow<S>): OpenWindow<S> => {
      const after = { ...before, value: fold(before.value, value, key) };
      taking.delete(before.startMs);
      changed.add(after);
      return after;
    };
    const known = open.map((window) => (taking.has(window.startMs) ? take(window) : window));
    if (taking.size === 0) return { open: known, changed };
    const opened = [...taking].map((startMs) =>
      take({ startMs, endMs: startMs + windows.sizeMs, value: initial }),
    );
    return { open: [...known, ...opened].sort(byStart), changed };
  };

export const takeSession =
  <V, S>(windows: SessionWindows, { initial, fold, merge }: WindowAggregation<V, S>): TakeRecord<V, S> =>
  ({ open }, { key, value, timeMs, streamTimeMs }) => {
    // A session ends one gap after its last record.
    const alone = { startMs: timeMs, endMs: timeMs + windows.gapMs };
    // One whose time is over takes nothing more, whether or not it has been handed on: batches must make no difference.
    const touches = (window: OpenWindow<S>): boolean =>
      window.startMs <= alone.endMs &&
      alone.startMs <= window.endMs &&
      isOpenAt(windows, window, streamTimeMs);
    const touched = open.filter(touches).sort(byStart);
    if (touched.length === 0 && !isOpenAt(windows, alone, streamTimeMs)) return undefined;
    const [first, ...others] = touched.map((window) => window.value);
    const joined = others.reduce<S | undefined>(
      (state, other) => (merge ? merge(state as S, other) : other),
      first,
    );
    const pace = latestPace(touched);
    const grown: OpenWindow<S> = {
      startMs: Math.min(alone.startMs, ...touched.map(({ startMs }) => startMs)),
      endMs: Math.max(alone.endMs, ...touched.map(({ endMs }) => endMs)),
      value: fold(touched.length === 0 ? initial : (joined as S), value, key),
      ...(pace && { pace }),
    };
    return {
      open: [...open.filter((window) => !touches(window)), grown].sort(byStart),
      changed: new Set([grown]),
    };
  };

/** Sessions that grow together are one from then on: what waited of one of them has been overtaken. */
const latestPace = <S>(touched: readonly OpenWindow<S>[]): OpenWindow<S>['pace'] => {
  const [only, ...others] = touched;
  if (others.length === 0) return only?.pace;
  const lastMs = touched.flatMap(({ pace }) => pace?.lastMs ?? []);
  const retryAtMs = touched.flatMap(({ pace }) => pace?.retryAtMs ?? []);
  return {
    ...(lastMs.length > 0 && { lastMs: Math.max(...lastMs) }),
    ...(retryAtMs.length > 0 && { retryAtMs: Math.max(...retryAtMs) }),
  };
};

/** Until when a record is kept: until the window that begins right after it takes no more. */
export const forgottenAtMs = (windows: SlidingWindows, { timeMs }: { readonly timeMs: number }): number =>
  closesAtMs(windows, { endMs: timeMs + 1 + windows.differenceMs });

/**
 * Each record defines the window that ends with it, and the one that begins right after it if there is something in that. A
 * new record is folded into the windows that are there, and those that it defines, or fills for the first time, are made of the
 * records that are kept.
 */
export const takeSliding =
  <V, S>(name: string, windows: SlidingWindows, { initial, fold }: Aggregation<V, S>): TakeRecord<V, S> =>
  ({ open, records: before = [] }, { key, value, timeMs, streamTimeMs }) => {
    const kept = before.filter((record) => forgottenAtMs(windows, record) > streamTimeMs);
    const records = [...kept, { timeMs, value }];
    const isIn = (startMs: number, time: number): boolean =>
      startMs <= time && time <= startMs + windows.differenceMs;
    const changed = new Set<OpenWindow<S>>();
    const after = open.map((window) => {
      if (!isIn(window.startMs, timeMs) || !isOpenAt(windows, window, streamTimeMs)) return window;
      const grown = { ...window, value: fold(window.value, value, key) };
      changed.add(grown);
      return grown;
    });
    const known = new Set(open.map(({ startMs }) => startMs));
    const defined = [timeMs - windows.differenceMs, ...records.map((record) => record.timeMs + 1)];
    for (const startMs of new Set(defined)) {
      const endMs = startMs + windows.differenceMs;
      if (known.has(startMs) || !isOpenAt(windows, { endMs }, streamTimeMs)) continue;
      const own = records.filter((record) => isIn(startMs, record.timeMs));
      if (own.length === 0) continue;
      const made = {
        startMs,
        endMs,
        value: own.reduce((state, record) => fold(state, record.value, key), initial),
      };
      after.push(made);
      changed.add(made);
    }
    if (![...changed].some(({ startMs }) => isIn(startMs, timeMs))) return undefined;
    if (records.length > windows.recordsMax) throw new TooManyRecords(name, key, windows);
    return { open: after.sort(byStart), records, changed: new Set([...changed].sort(byStart)) };
  };

class TooManyRecords extends Error {
  override readonly name = 'TooManyRecords';
  constructor(state: string, key: string, { recordsMax }: SlidingWindows) {
    super(
      `${recordsMax} records of ${key} are kept for the sliding windows ${state}: raise recordsMax, make the difference or ` +
        'the grace shorter, or use hopping windows, whose states do not grow with the number of records',
    );
  }
}
