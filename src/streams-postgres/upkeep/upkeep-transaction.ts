import type { Database, SqlRunner } from '../../postgres/database.ts';

// Whoever waits for a table lock stops everybody who comes after it: rather try again later. The turn itself may be waited
// for, nobody else does.
const statement = {
  name: 'begin-handled-upkeep',
  text: `
    select pg_advisory_xact_lock(hashtextextended('millrace handled upkeep', 0)), set_config('lock_timeout', '200ms', true)`,
};

/** One process at a time does upkeep; the next one finds it done. */
export const inUpkeepTransaction = (
  database: Database,
  routine: (tx: SqlRunner) => Promise<void>,
): Promise<void> =>
  database.transaction(async (tx) => {
    await tx.execute(statement);
    await routine(tx);
  });
