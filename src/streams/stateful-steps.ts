import type { StepContext, TopologyNode } from './graph.ts';
import { keyed } from './keyed.ts';
import type { Aggregation, Windowed } from './kstream.ts';
import type { RowTable, StateDefinition } from './tables.ts';
import {
  type ExpiryOptions,
  expiringState,
  expiryHandler,
  tellIfExpired,
  writeState,
} from './timers/expiring-state.ts';
import {
  closesAtMs,
  type FixedWindows,
  type OpenWindow,
  readyAtMs,
  type SessionWindows,
  type Windows,
  windowStarts,
} from './windows.ts';

type NodeOf = Omit<TopologyNode, 'children'>;

/** What a step keeps of a key, and for how long. */
export type KeptState = Partial<ExpiryOptions> & {
  readonly topology: string;
  readonly table?: RowTable;
};

const keeping = (state: StateDefinition): Pick<NodeOf, 'state' | 'onDue' | 'expireAfterMs'> => ({
  state,
  ...(state.expireAfterMs !== undefined && {
    expireAfterMs: state.expireAfterMs,
    onDue: expiryHandler(state),
  }),
});

/** One state per key, folded record by record and handed on each time it changes. */
export const aggregateNode = <V, S>(
  name: string,
  { initial, fold, topology, ...kept }: Aggregation<V, S> & KeptState,
  shown: (state: S) => unknown = (state) => state,
): NodeOf => {
  const state = expiringState(name, kept);
  return {
    kind: 'aggregate',
    label: name,
    ...keeping(state),
    compile: (next) => (recordKey, value, at) => {
      const key = keyed(recordKey, state);
      const known = at.run.read(state, key);
      if (!known) return;
      tellIfExpired(at, { state, topology, key }, next);
      const folded = fold(known.value === undefined ? initial : (known.value as S), value as V, key);
      writeState(at, state, key, folded);
      next(key, shown(folded), at);
    },
  };
};

/** The first value of a key is its state; later ones are combined with it. */
export const reduceNode = <V>(
  name: string,
  combine: (state: V, value: V) => V,
  kept: Omit<KeptState, 'table'>,
): NodeOf =>
  aggregateNode<V, Reduced<V> | null>(
    name,
    {
      ...kept,
      initial: null,
      fold: (state, value) => ({ reduced: state === null ? value : combine(state.reduced, value) }),
    },
    reducedOf,
  );

interface Reduced<V> {
  readonly reduced: V;
}

export const reducedOf = (state: unknown): unknown => (state as Reduced<unknown> | undefined)?.reduced;

export const tableNode = (name: string, { topology, ...kept }: KeptState): NodeOf => {
  const state = expiringState(name, kept);
  return {
    kind: 'table',
    label: name,
    ...keeping(state),
    compile: (next) => (recordKey, value, at) => {
      const key = keyed(recordKey, state);
      // Only a row that may have expired unseen is of interest.
      if (state.expireAfterMs !== undefined && !at.run.read(state, key)) return;
      tellIfExpired(at, { state, topology, key }, next);
      const isGone = value === null || value === undefined;
      writeState(at, state, key, isGone ? undefined : kept.table ? value : { latest: value });
      next(key, value, at);
    },
  };
};

/** Rows with null in them were kept before null took a row away. */
export const latestOf = (state: unknown): unknown =>
  (state as { readonly latest: unknown } | undefined)?.latest ?? undefined;

export const joinNode = (
  table: {
    readonly name: string;
    readonly node: TopologyNode;
    readonly state: StateDefinition;
    readonly shownOf: (state: unknown) => unknown;
  },
  options: { readonly keepsUnmatched: boolean; readonly combine: (value: unknown, row: unknown) => unknown },
): NodeOf => ({
  kind: 'join',
  label: `${options.keepsUnmatched ? 'left ' : ''}join with ${table.name}`,
  meets: [table.node],
  compile: (next) => (recordKey, value, at) => {
    const key = keyed(recordKey, table.state);
    const known = at.run.read(table.state, key);
    if (!known) return;
    const row = known.value === undefined ? undefined : table.shownOf(known.value);
    if (row === undefined && !options.keepsUnmatched) return;
    next(key, options.combine(value, row), at);
  },
});

/** Windows of one key as they are stored: those that are still open. */
type WindowState<S> = readonly OpenWindow<S>[];

export const windowNode = <V, S>(
  name: string,
  windows: Windows,
  options: Aggregation<V, S> & { readonly merge?: (first: S, second: S) => S },
): NodeOf => {
  if (windows.kind === 'session' && !options.merge) {
    throw new Error(`${name}: sessions grow together, so the aggregation needs to say how states merge`);
  }
  const state: StateDefinition = { name };
  const openFor =
    windows.kind === 'session' ? sessionFor<V, S>(windows, options) : fixedFor<V, S>(windows, options);
  return {
    kind: 'window',
    label: name,
    state,
    windows,
    compile: () => (recordKey, value, at) => {
      const key = keyed(recordKey, state);
      const known = at.run.read(state, key);
      if (!known) return;
      // Counted when it came.
      if (at.origin.isEarly) return at.run.noteMissed(at);
      const open = (known.value as WindowState<S> | undefined) ?? [];
      const changed = openFor(open, value as V, key, at);
      if (changed)
        at.run.write({ place: at.place, state, key, value: changed, dueAtMs: dueAt(windows, changed) });
      else at.run.noteLate(at);
    },
    onDue: {
      close: ({ key, value, untilMs, handOn }) => {
        const open = value as WindowState<S>;
        const left = open.filter((window) => readyAtMs(windows, window) > untilMs);
        for (const window of open) {
          if (readyAtMs(windows, window) > untilMs) continue;
          const { startMs, endMs } = window;
          handOn({
            name: `${startMs} ${endMs}`,
            timeMs: closesAtMs(windows, window),
            value: { key, startMs, endMs, value: window.value } satisfies Windowed<S>,
          });
        }
        return left.length === 0 ? undefined : { value: left, dueAtMs: dueAt(windows, left) };
      },
      postpone: ({ value, untilMs, toMs }) => {
        const postponed = (value as WindowState<S>).map((window) =>
          readyAtMs(windows, window) > untilMs ? window : { ...window, retryAtMs: toMs },
        );
        return { value: postponed, dueAtMs: dueAt(windows, postponed) };
      },
    },
  };
};

const dueAt = (windows: Windows, open: WindowState<unknown>): number =>
  Math.min(...open.map((window) => readyAtMs(windows, window)));

/** The windows with the record in them, or undefined when all it belongs to are closed. */
type Opener<V, S> = (
  open: WindowState<S>,
  value: V,
  key: string,
  at: StepContext,
) => WindowState<S> | undefined;

const fixedFor =
  <V, S>(windows: FixedWindows, { initial, fold }: Aggregation<V, S>): Opener<V, S> =>
  (open, value, key, at) => {
    const starts = windowStarts(windows, at.origin.timeMs).filter(
      (startMs) => closesAtMs(windows, { endMs: startMs + windows.sizeMs }) > at.task.streamTimeMs,
    );
    if (starts.length === 0) return undefined;
    const byStart = new Map(open.map((window) => [window.startMs, window]));
    for (const startMs of starts) {
      const window = byStart.get(startMs);
      const before = window ? window.value : initial;
      byStart.set(startMs, { startMs, endMs: startMs + windows.sizeMs, value: fold(before, value, key) });
    }
    return [...byStart.values()].sort((a, b) => a.startMs - b.startMs);
  };

const sessionFor =
  <V, S>(
    windows: SessionWindows,
    { initial, fold, merge }: Aggregation<V, S> & { readonly merge?: (first: S, second: S) => S },
  ): Opener<V, S> =>
  (open, value, key, at) => {
    const { timeMs } = at.origin;
    // A session ends one gap after its last record.
    const alone = { startMs: timeMs, endMs: timeMs + windows.gapMs };
    // One whose time is over takes nothing more, whether or not it has been handed on: batches must make no difference.
    const touches = (window: OpenWindow<S>): boolean =>
      window.startMs <= alone.endMs &&
      alone.startMs <= window.endMs &&
      closesAtMs(windows, window) > at.task.streamTimeMs;
    const touched = open.filter(touches).sort((a, b) => a.startMs - b.startMs);
    if (touched.length === 0 && closesAtMs(windows, alone) <= at.task.streamTimeMs) return undefined;
    const [first, ...others] = touched.map((window) => window.value);
    const joined = others.reduce<S | undefined>(
      (state, other) => (merge ? merge(state as S, other) : other),
      first,
    );
    const grown = {
      startMs: Math.min(alone.startMs, ...touched.map(({ startMs }) => startMs)),
      endMs: Math.max(alone.endMs, ...touched.map(({ endMs }) => endMs)),
      value: fold(touched.length === 0 ? initial : (joined as S), value, key),
    };
    return [...open.filter((window) => !touches(window)), grown].sort((a, b) => a.startMs - b.startMs);
  };
