import type { SqlRunner } from './database.ts';

const statement = {
  name: 'stay-in-transaction',
  text: 'set local idle_in_transaction_session_timeout = 0',
};

/**
 * Lets a transaction wait that is open for its lock only. To be called last: the server keeps what the last query could see
 * until another statement comes, and as long as that nothing that was deleted since can be cleared away, anywhere.
 */
export const stayInTransaction = async (tx: SqlRunner): Promise<void> => {
  await tx.execute(statement);
};
