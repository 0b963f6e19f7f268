import type { Database, SqlRunner } from '../../postgres/database.ts';
import { sql } from '../../postgres/sql.ts';
import { dayMs, type HandledDay, handledDayAt, listHandledDays } from './handled-days.ts';
import { inUpkeepTransaction } from './upkeep-transaction.ts';

const daysAhead = 3;

/** Tables for today and the days to come, so that their ids do not gather in the table for everything else. */
export const openHandledDays = async (database: Database, nowMs: number): Promise<readonly string[]> => {
  const wanted = Array.from({ length: daysAhead + 1 }, (_, ahead) => handledDayAt(nowMs + ahead * dayMs));
  const missing = await withoutExisting(database, wanted);
  const opened: string[] = [];
  for (const day of missing) {
    await inUpkeepTransaction(database, async (tx) => {
      const [stillMissing] = await withoutExisting(tx, [day]);
      if (!stillMissing || (await hasRowsElsewhere(tx, day))) return;
      await openDay(tx, day);
      opened.push(day.table);
    });
  }
  return opened;
};

const withoutExisting = async (
  db: SqlRunner,
  days: readonly HandledDay[],
): Promise<readonly HandledDay[]> => {
  const existing = new Set((await listHandledDays(db)).map(({ table }) => table));
  return days.filter(({ table }) => !existing.has(table));
};

const elsewhereStatement = {
  name: 'find-rows-of-handled-day',
  text: `
    select from projection_handled_default where bucket_start_ms >= $1 and bucket_start_ms < $2 limit 1`,
};

/** Ids of that day came before its table: they stay where they are, and so do those that follow. */
const hasRowsElsewhere = async (tx: SqlRunner, { startMs }: HandledDay): Promise<boolean> =>
  (await tx.execute(elsewhereStatement, [startMs, startMs + dayMs])).length > 0;

// Made apart and then attached: that keeps out only those who write event times without a table of their own.
const openDay = (tx: SqlRunner, { table, startMs }: HandledDay): Promise<void> =>
  tx.checked(async (slonik) => {
    const name = sql.identifier([table]);
    const [from, to] = [startMs, startMs + dayMs].map((ms) => sql.literalValue(String(ms)));
    await slonik.query(sql.unsafe`create table ${name} (like projection_handled including all)`);
    await slonik.query(
      sql.unsafe`alter table projection_handled attach partition ${name} for values from (${from ?? ''}) to (${to ?? ''})`,
    );
  });
