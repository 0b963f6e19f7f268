import type { Database, SqlRunner } from '../../postgres/database.ts';
import { sql } from '../../postgres/sql.ts';
import { dayMs, type HandledDay, listHandledDays } from './handled-days.ts';
import { inUpkeepTransaction } from './upkeep-transaction.ts';

/**
 * Drops days whose events cannot come back. An event may be handled long after it happened, as a replayed dead letter is:
 * its day stays until that, too, is long enough ago.
 */
export const dropHandledDays = async (database: Database, beforeMs: number): Promise<readonly string[]> => {
  const days = await listHandledDays(database);
  const dropped: string[] = [];
  for (const day of days.filter(({ startMs }) => startMs + dayMs <= beforeMs)) {
    await inUpkeepTransaction(database, async (tx) => {
      if (await dropDay(tx, day, beforeMs)) dropped.push(day.table);
    });
  }
  return dropped;
};

/** The lock keeps ids from being added to the day between the look and the drop. */
const dropDay = (tx: SqlRunner, { table }: HandledDay, beforeMs: number): Promise<boolean> =>
  tx.checked(async (slonik) => {
    const name = sql.identifier([table]);
    await slonik.query(sql.unsafe`lock table ${name} in share row exclusive mode`);
    const recent = await slonik.any(
      sql.unsafe`select from ${name} where handled_at >= to_timestamp(${beforeMs / 1000}::float8) limit 1`,
    );
    if (recent.length > 0) return false;
    await slonik.query(sql.unsafe`drop table ${name}`);
    return true;
  });
