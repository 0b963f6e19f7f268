import { setTimeout as sleep } from 'node:timers/promises';
import type { SqlRunner } from '../../postgres/database.ts';

const pollMs = 50;

// Its lock on the table goes after its rows can be seen.
const writersStatement = {
  name: 'find-outbox-writers',
  text: `
    select virtualtransaction as writer from pg_locks
    where relation = 'outbox'::regclass and mode = 'RowExclusiveLock' and granted
      and database = (select oid from pg_database where datname = current_database())`,
};

/** Writers that were there before do not end: what they have written can neither be seen nor ruled out. */
export class WritersStayed extends Error {
  override readonly name = 'WritersStayed';
}

/**
 * Until every transaction that writes to the outbox now has ended. The write-ahead log hands over a commit before other
 * sessions can see it, and with a synchronous standby that can take as long as the standby does.
 */
export const awaitWriters = async (db: SqlRunner, { waitMaxMs }: { waitMaxMs: number }): Promise<void> => {
  const deadline = Date.now() + waitMaxMs;
  const writing = async (): Promise<readonly string[]> =>
    (await db.execute<{ writer: string }>(writersStatement)).map(({ writer }) => writer);
  let left = await writing();
  while (left.length > 0) {
    if (Date.now() > deadline) {
      throw new WritersStayed(
        `${left.length} transactions write to the outbox for more than ${waitMaxMs} ms: what they write cannot be told from what is lost`,
      );
    }
    await sleep(pollMs);
    const now = new Set(await writing());
    left = left.filter((writer) => now.has(writer));
  }
};
