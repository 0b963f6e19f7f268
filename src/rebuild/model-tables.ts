import type { Topology } from '../streams/topology.ts';
import { nodesOfTopology } from '../streams/topology.ts';

/** A table of a read model: what tells its rows apart, and what they say. */
export interface ModelTable {
  readonly table: string;
  readonly keys: readonly string[];
  /** Those that a rebuild can tell; what goes by the wall clock is left out. */
  readonly columns: readonly string[];
  /** Of counts by window: when a row's window begins. */
  readonly windowColumn: string | undefined;
  /** Of rows that go away by themselves: when that is. */
  readonly expiryColumn: string | undefined;
}

/** The tables that a topology fills, by name, so that everybody locks them in the same order. */
export const modelTablesOf = (topology: Topology): readonly ModelTable[] => {
  const found = new Map<string, Omit<ModelTable, 'table' | 'columns'> & { columns: Set<string> }>();
  for (const { counts, state } of nodesOfTopology(topology)) {
    const definition = counts?.table ?? state?.table;
    if (!definition) continue;
    const { table, keyColumn, columns } = definition;
    const window = counts?.table.windowColumn;
    const byClock = state?.table?.clockColumns ?? [];
    const known = found.get(table) ?? {
      keys: window === undefined ? [keyColumn] : [window, keyColumn],
      columns: new Set<string>(),
      windowColumn: window,
      expiryColumn: state?.table?.expiryColumn,
    };
    for (const column of columns) if (!byClock.includes(column)) known.columns.add(column);
    found.set(table, known);
  }
  return [...found]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([table, { columns, ...rest }]) => ({ table, ...rest, columns: [...columns] }));
};

/** Why a projection cannot be rebuilt; undefined where it can. */
export const whyNotRebuildable = (topology: Topology): string | undefined => {
  const nodes = nodesOfTopology(topology);
  if (modelTablesOf(topology).length === 0) return `${topology.name} keeps no read model in the database`;
  if (nodes.some(({ destination }) => destination !== undefined))
    return `${topology.name} derives events, which a rebuild would derive a second time`;
  if (nodes.some(({ kind }) => kind === 'call'))
    return `${topology.name} does something outside of the database, which a rebuild would do again`;
  return undefined;
};
