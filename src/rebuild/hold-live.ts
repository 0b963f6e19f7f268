import { OperatorError } from '../operator-error.ts';
import type { Database, SqlRunner } from '../postgres/database.ts';
import { listPositions } from './build.ts';
import type { PlaceOffset } from './topic-source.ts';

const settingsStatement = {
  name: 'settings-of-hold',
  text: `
    select set_config('lock_timeout', '2s', true), set_config('idle_in_transaction_session_timeout', '0', true)`,
};

const holdStatement = {
  name: 'hold-live-build',
  text: `
    select from projection_build where projection = $1 and version = $2 and status = 'live' for update`,
};

/**
 * Holds the live model still: whoever wants to commit to it waits until the routine is over. What was committed before is
 * told by the checkpoints, which nobody moves meanwhile.
 */
export const holdLive = <T>(
  database: Database,
  live: { readonly projection: string; readonly version: number },
  routine: (tx: SqlRunner, positions: readonly PlaceOffset[]) => Promise<T>,
): Promise<T> =>
  database.transaction(async (tx) => {
    await tx.execute(settingsStatement);
    const held = await tx.execute(holdStatement, [live.projection, live.version]);
    if (held.length === 0)
      throw new OperatorError(`Build ${live.version} of ${live.projection} is not live any more`, {
        remedy: 'Somebody has swapped it meanwhile; start again',
      });
    return routine(tx, await listPositions(tx, live));
  });
