import type { SqlRunner, Statement } from '../postgres/database.ts';
import type { RowTable } from '../streams/tables.ts';
import { identifier } from './identifier.ts';
import type { FindTable, KnownTable } from './known-tables.ts';
import { statementName } from './statement-name.ts';

/** How the rows of a read model are read and written: as JSON, which PostgreSQL turns into the types of the columns. */
export interface RowStatements {
  readonly load: Statement;
  readonly write: Statement;
  readonly remove: Statement;
}

export type RowStatementsOf = (db: SqlRunner, table: RowTable) => Promise<RowStatements>;

export const createRowStatements = (findTable: FindTable): RowStatementsOf => {
  const known = new WeakMap<RowTable, RowStatements>();
  return async (db, table) => {
    const before = known.get(table);
    if (before) return before;
    const statements = statementsFor(table, await findTable(db, table.table));
    known.set(table, statements);
    return statements;
  };
};

const statementsFor = (definition: RowTable, known: KnownTable): RowStatements => {
  const [table, key] = [identifier(definition.table), identifier(definition.keyColumn)];
  const columns = definition.columns.map(identifier);
  const changes = [
    ...columns.map((column) => `${column} = excluded.${column}`),
    ...(known.columns.has('updated_at') && !columns.includes('updated_at')
      ? ['updated_at = clock_timestamp()']
      : []),
  ];
  const statement = (name: string, text: string): Statement => ({
    name: statementName(`${name}-${table}`, text),
    text,
  });
  return {
    load: statement(
      'load',
      `select row.${key} as key, to_jsonb(state)::text as value
       from ${table} row cross join lateral (select ${columns.map((column) => `row.${column}`).join(', ')}) state
       where row.${key} = any($1::text[])`,
    ),
    write: statement(
      'write',
      `insert into ${table} (${[key, ...columns].join(', ')})
       select ${[key, ...columns].join(', ')} from jsonb_populate_recordset(null::${table}, $1::jsonb)
       on conflict (${key}) do update set ${changes.join(', ')}`,
    ),
    remove: statement('remove', `delete from ${table} where ${key} = any($1::text[])`),
  };
};
