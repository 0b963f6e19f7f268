import type { Database } from '../../postgres/database.ts';
import { identifier } from '../identifier.ts';
import { statementName } from '../statement-name.ts';
import { inUpkeepTransaction } from './upkeep-transaction.ts';

/** A table of counts by window. */
export interface WindowTable {
  readonly table: string;
  readonly windowColumn: string;
}

/** Small enough to be over in milliseconds, and few enough that the upkeep comes to an end; the rest is for the next round. */
const rowsPerDelete = 1000;
const deletesMax = 500;

// Rows that somebody is writing to are left to the next round: nobody waits for the other.
const statementFor = ({ table, windowColumn }: WindowTable) => {
  const [name, column] = [identifier(table), identifier(windowColumn)];
  const text = `
    delete from ${name} where ctid = any(array(
      select ctid from ${name} where ${column} < to_timestamp($1::float8 / 1000)
      order by ${column} limit $2 for update skip locked))
    returning true`;
  return { name: statementName(`expire-${table}`, text), text };
};

/** Takes windows away that began before a time, the oldest first. */
export const expireWindows = async (
  database: Database,
  tables: readonly WindowTable[],
  beforeMs: number,
): Promise<number> => {
  let expired = 0;
  for (const table of tables) {
    const statement = statementFor(table);
    for (let deletes = 0, full = true; full && deletes < deletesMax; deletes++) {
      full = false;
      await inUpkeepTransaction(database, async (tx) => {
        const { length } = await tx.execute(statement, [beforeMs, rowsPerDelete]);
        expired += length;
        full = length === rowsPerDelete;
      });
    }
  }
  return expired;
};
