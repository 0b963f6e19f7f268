import type { SqlRunner, Statement } from '../postgres/database.ts';
import type { CounterTable, TableDelta } from '../streams/tables.ts';
import { identifier } from './identifier.ts';
import type { FindTable, KnownTable } from './known-tables.ts';
import { statementName } from './statement-name.ts';

export type AddToTable = (tx: SqlRunner, delta: TableDelta) => Promise<void>;

interface AddStatements {
  readonly add: Statement;
  /** For counts that go down in a table that refuses some values. */
  readonly addChecked: Statement;
  readonly hasChecks: boolean;
}

/** Adds a batch's counts to their rows, which appear when they are new. A column updated_at is kept where there is one. */
export const createAddToTable = (findTable: FindTable): AddToTable => {
  const known = new WeakMap<CounterTable, AddStatements>();
  return async (tx, { table, rows }) => {
    let statements = known.get(table);
    if (!statements) {
      statements = statementsFor(table, await findTable(tx, table.table));
      known.set(table, statements);
    }
    const goesDown = statements.hasChecks && rows.some(({ amounts }) => amounts.some((amount) => amount < 0));
    await tx.execute(goesDown ? statements.addChecked : statements.add, [
      rows.map(({ key }) => key),
      ...(table.windowColumn === undefined ? [] : [rows.map(({ windowStartMs }) => windowStartMs ?? null)]),
      ...table.columns.map((_, column) => rows.map(({ amounts }) => amounts[column] ?? 0)),
    ]);
  };
};

const statementsFor = (definition: CounterTable, { columns, hasChecks }: KnownTable): AddStatements => {
  const parts = partsOf(definition, columns);
  const add = insertText(parts, `from (${parts.given}) given order by position`);
  return {
    add: { name: statementName(`add-to-${parts.table}`, add), text: add },
    addChecked: addCheckedFor(parts),
    hasChecks,
  };
};

interface Parts {
  readonly table: string;
  readonly keys: readonly string[];
  readonly counts: readonly string[];
  /** The rows as parameters, with their position. */
  readonly given: string;
  readonly changes: (from: string) => string;
}

const partsOf = (
  { table, keyColumn, windowColumn, columns }: CounterTable,
  existing: ReadonlySet<string>,
): Parts => {
  const window = windowColumn === undefined ? [] : [identifier(windowColumn)];
  const keys = [identifier(keyColumn), ...window];
  const counts = columns.map(identifier);
  const names = [...keys, ...counts];
  const parameters = names.map((_, index) => (index === 0 ? '$1::text[]' : `$${index + 1}::bigint[]`));
  const selected = names.map((name) =>
    window.includes(name) ? `to_timestamp(${name} / 1000.0::float8) as ${name}` : name,
  );
  return {
    table: identifier(table),
    keys,
    counts,
    given: `select ${selected.join(', ')}, position
            from unnest(${parameters.join(', ')}) with ordinality as g(${names.join(', ')}, position)`,
    changes: (from) =>
      [
        ...counts.map((column) => `${column} = counted.${column} + ${from}.${column}`),
        ...(existing.has('updated_at') ? ['updated_at = clock_timestamp()'] : []),
      ].join(', '),
  };
};

// A row that is only to be there is not written again.
const insertText = ({ table, keys, counts, changes }: Parts, from: string): string => `
    insert into ${table} as counted (${[...keys, ...counts].join(', ')})
    select ${[...keys, ...counts].map((name) => `given.${name}`).join(', ')} ${from}
    on conflict (${keys.join(', ')}) do update set ${changes('excluded')}
    where ${counts.map((column) => `excluded.${column} <> 0`).join(' or ')}`;

// PostgreSQL checks the row of an insert before it sees that there is one to add to, and would refuse every count that goes
// down. So rows that are there are updated, after they have been locked in the order in which everybody takes them.
const addCheckedFor = (parts: Parts): Statement => {
  const { table, keys, counts, given, changes } = parts;
  const same = (a: string, b: string): string => keys.map((key) => `${a}.${key} = ${b}.${key}`).join(' and ');
  const missing = `from given where not exists (select from held where ${same('held', 'given')}) order by position`;
  const text = `
    with given as materialized (${given}), held as materialized (
      select ${keys.map((key) => `counted.${key}`).join(', ')} from ${table} counted join given on ${same('counted', 'given')}
      order by given.position
      for update of counted
    ), added as (
      update ${table} counted set ${changes('given')}
      from held join given on ${same('held', 'given')}
      where ${same('counted', 'held')} and (${counts.map((column) => `given.${column} <> 0`).join(' or ')})
    )
    ${insertText(parts, missing)}`;
  return { name: statementName(`add-checked-${table}`, text), text };
};
