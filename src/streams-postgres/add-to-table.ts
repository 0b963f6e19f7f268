import type { SqlRunner } from '../postgres/database.ts';
import type { TableDelta } from '../streams/fold-effects.ts';
import type { CounterTable } from '../streams/topology.ts';

/** Identifiers come from the topologies' own table definitions, never from data; the check keeps it that way. */
const identifier = (name: string): string => {
  if (!/^[a-z][a-z0-9_]*$/.test(name)) throw new Error(`${name} is not a table or column name`);
  return name;
};

const statementFor = ({ table, keyColumn, columns }: CounterTable) => {
  const counts = columns.map(identifier);
  return {
    name: `add-to-${table}`,
    text: `
      insert into ${identifier(table)} as counted (${[identifier(keyColumn), ...counts].join(', ')})
      select * from unnest($1::text[], ${counts.map((_, index) => `$${index + 2}::bigint[]`).join(', ')})
      on conflict (${identifier(keyColumn)}) do update set
        ${counts.map((column) => `${column} = counted.${column} + excluded.${column}`).join(', ')},
        updated_at = clock_timestamp()`,
  };
};

/** Adds a batch's counts to their rows, which appear when they are new. */
export const addToTable = async (tx: SqlRunner, { table, rows }: TableDelta): Promise<void> => {
  const deltas = [...rows.values()];
  await tx.execute(statementFor(table), [
    [...rows.keys()],
    ...table.columns.map((column) => deltas.map((counts) => counts.get(column) ?? 0)),
  ]);
};
