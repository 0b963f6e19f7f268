import type { SqlRunner } from '../postgres/database.ts';
import type { StateChange } from '../streams/ports.ts';
import type { TableDelta } from '../streams/tables.ts';

const statement = {
  name: 'tell-changes',
  text: 'insert into model_change (model, keys) values ($1, $2)',
};

/** Writes down which rows of the told tables a batch changes, in its transaction: one row per table. False when it is none. */
export const tellChanges = async (
  tx: SqlRunner,
  toldTables: ReadonlySet<string>,
  { deltas, states }: { readonly deltas: readonly TableDelta[]; readonly states: readonly StateChange[] },
): Promise<boolean> => {
  const changed = new Map<string, Set<string>>();
  const tell = (table: string, key: string): void => {
    const keys = changed.get(table) ?? new Set();
    changed.set(table, keys.add(key));
  };
  for (const { table, rows } of deltas) {
    if (toldTables.has(table.table)) for (const { key } of rows) tell(table.table, key);
  }
  for (const { state, key } of states) {
    if (state.table && toldTables.has(state.table.table)) tell(state.table.table, key);
  }
  for (const [table, keys] of changed) await tx.execute(statement, [table, [...keys]]);
  return changed.size > 0;
};
