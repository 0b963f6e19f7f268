import type { StepContext, TopologyNode } from '../graph.ts';
import { keyed } from '../keyed.ts';
import type { StateDefinition } from '../tables.ts';
import type { JoinKind } from './stream-join.ts';

/** A table's rows, as it shows them. */
export interface JoinedTable {
  readonly node: TopologyNode;
  readonly state: StateDefinition;
  readonly shownOf: (state: unknown) => unknown;
}

export interface TableJoin {
  readonly name: string;
  readonly kind: JoinKind;
  readonly left: JoinedTable;
  readonly right: JoinedTable;
  readonly combine: (left: unknown, right: unknown) => unknown;
}

/**
 * Whenever a row of either side changes, both are looked at, and the joined row is kept as that of `toTable` is. A key that had
 * no row and gets none is not told of.
 */
export const tableJoinNode = ({
  name,
  kind,
  left,
  right,
  combine,
}: TableJoin): Omit<TopologyNode, 'children'> => {
  const state: StateDefinition = { name };
  const rowOf = (at: StepContext, table: JoinedTable, key: string) => {
    const known = at.run.read(table.state, key);
    return known && { row: known.value === undefined ? undefined : table.shownOf(known.value) };
  };
  return {
    kind: 'table',
    label: `${name}, ${kind} join of ${left.state.name} and ${right.state.name}`,
    state,
    meets: [left.node, right.node],
    compile: (next) => (recordKey, _row, at) => {
      const key = keyed(recordKey, state);
      const [one, other, before] = [rowOf(at, left, key), rowOf(at, right, key), at.run.read(state, key)];
      if (!one || !other || !before) return;
      const hasRow =
        kind === 'inner'
          ? one.row !== undefined && other.row !== undefined
          : one.row !== undefined || (kind === 'outer' && other.row !== undefined);
      if (!hasRow && before.value === undefined) return;
      const row = hasRow ? (combine(one.row, other.row) ?? undefined) : undefined;
      at.run.write({ place: at.place, state, key, value: row === undefined ? undefined : { latest: row } });
      next(key, row ?? null, at);
    },
  };
};
