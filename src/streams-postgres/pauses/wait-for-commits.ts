import type { Database } from '../../postgres/database.ts';
import { codeOf } from '../../postgres/sql-error.ts';

const settingsStatement = {
  name: 'settings-of-wait-for-commits',
  text: `select set_config('lock_timeout', '2s', true)`,
};

const waitStatement = {
  name: 'wait-for-commits',
  text: `select from projection_build where projection = $1 and status = 'live' for update`,
};

const lockNotAvailable = '55P03';

/**
 * Every commit of a projection has its build's row locked: whoever gets that lock after the pause was written down knows that
 * all commits from before are over. False when one of them takes too long.
 */
export const waitForCommits = async (database: Database, projection: string): Promise<boolean> => {
  try {
    await database.transaction(async (tx) => {
      await tx.execute(settingsStatement);
      await tx.execute(waitStatement, [projection]);
    });
    return true;
  } catch (error) {
    if (codeOf(error) === lockNotAvailable) return false;
    throw error;
  }
};
