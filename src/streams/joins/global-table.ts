import type { TopologyNode } from '../graph.ts';
import { keyed } from '../keyed.ts';
import type { GlobalKTable } from '../kstream.ts';
import type { OpenSource } from '../repartition.ts';
import type { GlobalState } from '../tables.ts';

type NodeOf = Omit<TopologyNode, 'children'>;

/** Rows that a global table has room for unless it says otherwise. */
const rowsMaxDefault = 10_000;

export interface GlobalTableOptions {
  /** Rows that every process has room for; what is beyond that stops the projection until it is raised. */
  readonly rowsMax?: number;
}

/** A global table as the joins with it need it: where its rows come from and lie, and whose it is. */
export class GlobalTable implements GlobalKTable<unknown> {
  readonly isGlobal = true;
  readonly name: string;
  readonly node: TopologyNode;
  readonly state: GlobalState;
  readonly open: OpenSource;

  constructor({ node, state, open }: Pick<GlobalTable, 'node' | 'state' | 'open'>) {
    this.name = state.name;
    this.node = node;
    this.state = state;
    this.open = open;
  }
}

/** The row that a record tells of; null takes it away, undefined says nothing of it. */
export type RowOf = (value: unknown) => unknown;

export const valueAsRow: RowOf = (value) => value ?? null;

export const globalState = (
  name: string,
  { rowsMax = rowsMaxDefault }: GlobalTableOptions = {},
): GlobalState => {
  if (!Number.isSafeInteger(rowsMax) || rowsMax < 1)
    throw new RangeError(`${name}: rowsMax must be a whole number from 1 on`);
  return { name, rowsMax };
};

/** Kept by the owner of the key's partition, as every state is; what is special about it is who reads it. */
export const globalTableNode = (state: GlobalState, rowOf: RowOf): NodeOf => ({
  kind: 'global-table',
  label: `${state.name}, whole in every process (${state.rowsMax} rows at most)`,
  state,
  compile: () => (recordKey, value, at) => {
    const row = rowOf(value);
    if (row === undefined) return;
    const key = keyed(recordKey, state);
    at.run.write({ place: at.place, state, key, value: row === null ? undefined : { latest: row } });
  },
});

export interface GlobalJoin {
  readonly keepsUnmatched: boolean;
  /** The row that is looked up; null for none. */
  readonly keyOf: (value: unknown) => string | null;
  readonly combine: (value: unknown, row: unknown) => unknown;
}

/** Any key's row, whatever partition it lies in: nothing is co-partitioned, and the record keeps its own key. */
export const globalJoinNode = (
  { node, state }: GlobalTable,
  { keepsUnmatched, keyOf, combine }: GlobalJoin,
): NodeOf => ({
  kind: 'join',
  label: `${keepsUnmatched ? 'left ' : ''}join with ${state.name} by a key of the value`,
  looksInto: node,
  compile: (next) => (key, value, at) => {
    const wanted = keyOf(value);
    const known = wanted === null ? { value: undefined } : at.run.read(state, wanted);
    if (!known) return;
    const row = (known.value as { readonly latest: unknown } | undefined)?.latest;
    if (row === undefined && !keepsUnmatched) return;
    next(key, combine(value, row), at);
  },
});
