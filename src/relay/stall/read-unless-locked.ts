import type { Database, SqlRunner } from '../../postgres/database.ts';
import { codeOf } from '../../postgres/sql-error.ts';

/** Stands for what could not be read. */
export const locked = Symbol('locked');

const lockNotAvailable = '55P03';
const impatience = { name: 'wait-little-for-locks', text: `set local lock_timeout = '500ms'` };

/** Whoever wants to know what holds everything up must not be held up by it as well. */
export const readUnlessLocked = async <T>(
  database: Database,
  read: (tx: SqlRunner) => Promise<T>,
): Promise<T | typeof locked> => {
  try {
    return await database.transaction(async (tx) => {
      await tx.execute(impatience);
      return read(tx);
    });
  } catch (error) {
    if (codeOf(error) === lockNotAvailable) return locked;
    throw error;
  }
};
