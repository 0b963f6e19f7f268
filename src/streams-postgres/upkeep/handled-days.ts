import type { SqlRunner } from '../../postgres/database.ts';

export const dayMs = 24 * 60 * 60 * 1000;

/** A day of event time, in UTC, that has a table of its own. */
export interface HandledDay {
  readonly table: string;
  readonly startMs: number;
}

export const handledDayAt = (timeMs: number): HandledDay => {
  const startMs = Math.floor(timeMs / dayMs) * dayMs;
  const date = new Date(startMs).toISOString().slice(0, 10);
  return { table: `projection_handled_${date.replaceAll('-', '')}`, startMs };
};

const statement = {
  name: 'list-handled-days',
  text: `
    select child.relname as "table" from pg_inherits
    join pg_class child on child.oid = inhrelid
    where inhparent = 'projection_handled'::regclass and child.relname ~ '^projection_handled_[0-9]{8}$'
    order by child.relname`,
};

export const listHandledDays = async (db: SqlRunner): Promise<readonly HandledDay[]> => {
  const rows = await db.execute<{ table: string }>(statement);
  return rows.map(({ table }) => {
    const [, year, month, day] = /(\d{4})(\d\d)(\d\d)$/.exec(table) ?? [];
    return { table, startMs: Date.UTC(Number(year), Number(month) - 1, Number(day)) };
  });
};
