import type { Database } from '../../postgres/database.ts';
import { inUpkeepTransaction } from './upkeep-transaction.ts';

/** Far longer than a copy goes without being read anew, so that every one has been told. */
const keptMs = 24 * 60 * 60 * 1000;
const rowsPerDelete = 1000;
const deletesMax = 500;

// Rows that somebody is writing to are left to the next round: nobody waits for the other.
const statement = {
  name: 'expire-emptied-states',
  text: `
    delete from projection_state where ctid = any(array(
      select ctid from projection_state where value is null and changed_at < to_timestamp($1::float8 / 1000)
      order by changed_at limit $2 for update skip locked))
    returning true`,
};

/** Takes away what is left of states that were taken away, once every process with a copy of them knows. */
export const expireEmptiedStates = async (database: Database, nowMs: number): Promise<number> => {
  let expired = 0;
  for (let deletes = 0, full = true; full && deletes < deletesMax; deletes++) {
    full = false;
    await inUpkeepTransaction(database, async (tx) => {
      const { length } = await tx.execute(statement, [nowMs - keptMs, rowsPerDelete]);
      expired += length;
      full = length === rowsPerDelete;
    });
  }
  return expired;
};
