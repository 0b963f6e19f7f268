import type { CounterTable, Effect, HandledKey } from './topology.ts';

/** What a whole batch does to one table: one row per key, one number per column. */
export interface TableDelta {
  readonly table: CounterTable;
  readonly rows: ReadonlyMap<string, ReadonlyMap<string, number>>;
}

export const handledKeyText = ({ aggregateType, aggregateId, action }: HandledKey): string =>
  JSON.stringify([aggregateType, aggregateId, action]);

/** The first effect of every handled key, and all that need none: a key that comes twice in one batch counts once. */
export const withoutRepeats = (effects: readonly Effect[]): readonly Effect[] => {
  const seen = new Set<string>();
  return effects.filter(({ handled }) => {
    if (!handled) return true;
    const key = handledKeyText(handled);
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
};

/** Adds effects up, so that the database sees each row once. Rows come sorted: two partitions that meet in a table must lock in one order. */
export const foldEffects = (effects: readonly Effect[]): readonly TableDelta[] => {
  const tables = new Map<string, { table: CounterTable; rows: Map<string, Map<string, number>> }>();
  for (const { table, key, column, by } of effects) {
    const delta = getOrAdd(tables, table.table, () => ({ table, rows: new Map() }));
    const row = getOrAdd(delta.rows, key, () => new Map<string, number>());
    if (column !== undefined) row.set(column, (row.get(column) ?? 0) + by);
  }
  return [...tables.values()].map(({ table, rows }) => ({
    table,
    rows: new Map([...rows].sort(([a], [b]) => (a < b ? -1 : 1))),
  }));
};

const getOrAdd = <K, V>(map: Map<K, V>, key: K, make: () => V): V => {
  const found = map.get(key);
  if (found !== undefined) return found;
  const made = make();
  map.set(key, made);
  return made;
};
