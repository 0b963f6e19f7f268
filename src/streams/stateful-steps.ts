import type { TopologyNode } from './graph.ts';
import { keyed } from './keyed.ts';
import type { Aggregation } from './kstream.ts';
import type { RowTable, StateDefinition } from './tables.ts';
import {
  type ExpiryOptions,
  expiringState,
  expiryHandler,
  tellIfExpired,
  writeState,
} from './timers/expiring-state.ts';

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

/** One state per key, folded record by record and handed on each time it changes. Null takes a row of a table away. */
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
      const isGone = kept.table !== undefined && folded === null;
      writeState(at, state, key, isGone ? undefined : folded);
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
