import type { Database } from '../postgres/database.ts';
import { stayInTransaction } from '../postgres/stay-in-transaction.ts';

// A number that stands for this and nothing else; it goes with the connection, so a process that dies holds nobody up.
const statement = {
  name: 'try-to-change-dead-letters',
  text: `select pg_try_advisory_xact_lock(hashtextextended('millrace dead letters', 0)) as mine`,
};

/**
 * Only one replay or drop at a time, whoever does it: two of them could send the records of a key among each other. What is
 * done inside commits by itself; the transaction around it holds the lock, and nothing else.
 */
export const oneAtATime = <T>(database: Database, routine: () => Promise<T>): Promise<T | 'busy'> =>
  database.transaction(async (tx) => {
    const [row] = await tx.execute<{ mine: boolean }>(statement);
    if (!row?.mine) return 'busy';
    await stayInTransaction(tx);
    return routine();
  });
