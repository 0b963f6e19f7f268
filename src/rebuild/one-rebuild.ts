import { OperatorError } from '../operator-error.ts';
import type { Database } from '../postgres/database.ts';
import { stayInTransaction } from '../postgres/stay-in-transaction.ts';

const lockStatement = {
  name: 'try-to-rebuild',
  text: `select pg_try_advisory_xact_lock(hashtextextended('millrace rebuild ' || $1::text, 0)) as mine`,
};

/** Somebody else has the lock. */
export class RebuildUnderWay extends OperatorError {}

/** The lock goes with the connection: a process that dies holds nobody up. Nothing else is done in that transaction. */
export const oneRebuildAtATime = <T>(
  database: Database,
  projection: string,
  routine: () => Promise<T>,
): Promise<T> =>
  database.transaction(async (tx) => {
    const [row] = await tx.execute<{ mine: boolean }>(lockStatement, [projection]);
    if (!row?.mine)
      throw new RebuildUnderWay(`Somebody else is rebuilding ${projection}`, {
        remedy: 'Only one can at a time; try again when that is done',
      });
    await stayInTransaction(tx);
    return routine();
  });
