import type { Origin, Step, StepContext, TopologyNode } from './graph.ts';
import { keyed } from './keyed.ts';
import type { Aggregation } from './kstream.ts';
import type { RowTable, StateDefinition } from './tables.ts';

type NodeOf = Omit<TopologyNode, 'children'>;

/** One state per key, folded record by record and handed on each time it changes. Null takes a row of a table away. */
export const aggregateNode = <V, S>(
  name: string,
  { initial, fold, table }: Aggregation<V, S> & { readonly table?: RowTable },
  shown: (state: S) => unknown = (state) => state,
): NodeOf => {
  const state: StateDefinition = table ? { name, table } : { name };
  return {
    kind: 'aggregate',
    label: name,
    state,
    compile: (next) => (recordKey, value, at) => {
      const key = keyed(recordKey, state);
      const known = at.run.read(state, key);
      if (!known) return;
      const folded = fold(known.value === undefined ? initial : (known.value as S), value as V, key);
      const isGone = table !== undefined && folded === null;
      at.run.write({ place: at.place, state, key, value: isGone ? undefined : folded });
      next(key, shown(folded), at);
    },
  };
};

/** The first value of a key is its state; later ones are combined with it. */
export const reduceNode = <V>(name: string, combine: (state: V, value: V) => V): NodeOf =>
  aggregateNode<V, Reduced<V> | null>(
    name,
    {
      initial: null,
      fold: (state, value) => ({ reduced: state === null ? value : combine(state.reduced, value) }),
    },
    reducedOf,
  );

interface Reduced<V> {
  readonly reduced: V;
}

export const reducedOf = (state: unknown): unknown => (state as Reduced<unknown> | undefined)?.reduced;

export const tableNode = (name: string): NodeOf => {
  const state: StateDefinition = { name };
  return {
    kind: 'table',
    label: name,
    state,
    compile: (next) => (recordKey, value, at) => {
      const key = keyed(recordKey, state);
      const isGone = value === null || value === undefined;
      at.run.write({ place: at.place, state, key, value: isGone ? undefined : { latest: value } });
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

interface HeldRecord extends Origin {
  readonly version: number;
  readonly value: unknown;
}
/** What `inOrder` knows of a key; `projection_waiting_key` shows those that hold something. */
interface OrderState {
  readonly next: number;
  readonly held: readonly HeldRecord[];
}
const heldMaxDefault = 1000;

export const inOrderNode = (
  name: string,
  { version, heldMax = heldMaxDefault }: { version: (value: unknown) => number; heldMax?: number },
): NodeOf => {
  const state: StateDefinition = { name };
  return {
    kind: 'in-order',
    label: name,
    state,
    compile: (next) => (recordKey, value, at) => {
      const key = keyed(recordKey, state);
      const known = at.run.read(state, key);
      if (!known) return;
      const before = (known.value as OrderState | undefined) ?? { next: 1, held: [] };
      const after = takeInOrder(before, { version: version(value), value, ...at.origin }, (record) =>
        handOn(next, key, record, at),
      );
      if (after.held.length > heldMax) {
        throw new Error(`${heldMax} records of ${key} wait for version ${after.next}, which has not come`);
      }
      if (after !== before) at.run.write({ place: at.place, state, key, value: after });
    },
  };
};

/** A record that was held keeps its own id and time. */
const handOn = (next: Step, key: string, record: HeldRecord, at: StepContext): void => {
  const current = at.origin;
  at.origin = record;
  next(key, record.value, at);
  at.origin = current;
};

const takeInOrder = (
  state: OrderState,
  record: HeldRecord,
  emit: (record: HeldRecord) => void,
): OrderState => {
  if (record.version < state.next || state.held.some(({ version }) => version === record.version))
    return state;
  const held = [...state.held, record].sort((a, b) => a.version - b.version);
  let next = state.next;
  for (let first = held[0]; first?.version === next; first = held[0]) {
    emit(first);
    held.shift();
    next++;
  }
  return {
    next,
    held: held.map(({ version, value, id, timeMs, isEarly, recordedMs }) => ({
      version,
      value,
      id,
      timeMs,
      ...(isEarly && { isEarly }),
      ...(recordedMs !== undefined && { recordedMs }),
    })),
  };
};
