import type { Database } from '../../postgres/database.ts';
import { inUpkeepTransaction } from './upkeep-transaction.ts';

/** Small enough to be over soon, and few enough that the upkeep comes to an end. */
const rowsPerDelete = 5000;
const deletesMax = 200;

// Ids outside of the days: an event of the future may come back as long as it has not happened.
const segmentsStatement = {
  name: 'expire-handled',
  text: `
    delete from projection_handled_default where ctid = any(array(
      select ctid from projection_handled_default
      where handled_at < to_timestamp($1::float8 / 1000) and bucket_start_ms < $1::float8
      limit $2))
    returning true`,
};

const factsStatement = {
  name: 'expire-facts',
  text: `
    delete from projection_fact where ctid = any(array(
      select ctid from projection_fact where handled_at < to_timestamp($1::float8 / 1000) limit $2))
    returning true`,
};

const scopesStatement = {
  name: 'drop-scopes-without-place',
  text: `
    delete from projection_scope s
    where partition = -1 and not exists (select from projection_handled_default where scope = s.id)`,
};

/** Takes away what has no day to be dropped with, a bounded number of rows at a time. */
export const expireHandled = async (database: Database, beforeMs: number): Promise<number> => {
  let expired = 0;
  for (const statement of [segmentsStatement, factsStatement]) {
    for (let deletes = 0, full = true; full && deletes < deletesMax; deletes++) {
      full = false;
      await inUpkeepTransaction(database, async (tx) => {
        const { length } = await tx.execute(statement, [beforeMs, rowsPerDelete]);
        expired += length;
        full = length === rowsPerDelete;
      });
    }
  }
  await inUpkeepTransaction(database, async (tx) => {
    await tx.execute(scopesStatement);
  });
  return expired;
};
