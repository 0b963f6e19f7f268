import type { SqlRunner } from '../postgres/database.ts';
import { identifier } from './identifier.ts';

export interface KnownTable {
  readonly columns: ReadonlySet<string>;
  /** Whether it refuses some values, as a count below zero. */
  readonly hasChecks: boolean;
}

/** Tells what the database has under the name that a topology uses. */
export type FindTable = (db: SqlRunner, table: string) => Promise<KnownTable>;

const statement = {
  name: 'find-table',
  text: `
    select array_agg(attname::text) as columns,
           exists (select from pg_constraint where conrelid = to_regclass($1) and contype = 'c') as "hasChecks"
    from pg_attribute
    where attrelid = to_regclass($1) and attnum > 0 and not attisdropped`,
};

/** Each table is asked for once; one that is missing may still come. */
export const createFindTable = (): FindTable => {
  const known = new Map<string, KnownTable>();
  return async (db, table) => {
    const before = known.get(table);
    if (before) return before;
    const [row] = await db.execute<{ columns: string[] | null; hasChecks: boolean }>(statement, [
      identifier(table),
    ]);
    if (!row?.columns) throw new Error(`The database has no table ${table}`);
    const found = { columns: new Set(row.columns), hasChecks: row.hasChecks };
    known.set(table, found);
    return found;
  };
};
