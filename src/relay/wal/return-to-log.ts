import type { SqlRunner } from '../../postgres/database.ts';
import { fenceShards, lockSharding } from '../fence-shards.ts';
import { letRelaysReconsider } from '../pause.ts';
import { forgetLogLoss, type LogLoss } from './log-loss.ts';
import { forgetPositions } from './stored-position.ts';

/**
 * Lets relays with RELAY_SOURCE=wal read the write-ahead log again: the next one that gets the lease makes a new slot. To
 * be run in a transaction. Null, and nothing is done, when the log was not lost.
 */
export const returnToLog = async (tx: SqlRunner): Promise<LogLoss | null> => {
  const shards = await lockSharding(tx);
  const loss = await forgetLogLoss(tx);
  if (!loss) return null;
  // Whoever relays finds out what has changed when it takes its lease anew.
  await fenceShards(tx, { shards, by: 'use-wal' });
  await forgetPositions(tx, loss.slot);
  await letRelaysReconsider(tx);
  return loss;
};
