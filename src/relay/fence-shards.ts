import type { SqlRunner } from '../postgres/database.ts';
import { leaseOfShard, shardsOf } from './shard.ts';

// Waits for relays that are just asking for a lease; those that come later wait until the transaction is over.
const lockStatement = {
  name: 'lock-sharding',
  text: 'select shards from relay_sharding for update',
};

// Waits for cursors that are just being moved; whoever wants to move one later is refused.
const fenceStatement = {
  name: 'fence-shards',
  text: `
    update scheduler_lock set locked_by = $2, locked_until = '-infinity', token = token + 1
    where name = any ($1::text[])`,
};

/** The number of shards, which stays so until the transaction ends. */
export const lockSharding = async (tx: SqlRunner): Promise<number> => {
  const [division] = await tx.execute<{ shards: number }>(lockStatement);
  if (!division) throw new Error('The number of shards is missing: relay_sharding has no row');
  return division.shards;
};

/**
 * Takes the leases of all shards away, for everybody until the transaction ends: no cursor moves any more, whatever the
 * relays that are at work still publish. Their number has to be locked.
 */
export const fenceShards = async (
  tx: SqlRunner,
  { shards, by }: { shards: number; by: 'resync' | 'reshard' | 'use-wal' },
): Promise<void> => {
  await tx.execute(fenceStatement, [shardsOf(shards).map(leaseOfShard), by]);
};
