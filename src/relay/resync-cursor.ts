import type { SqlRunner } from '../postgres/database.ts';
import { fenceShards, lockSharding } from './fence-shards.ts';
import { startOfJournal } from './outbox-cursor.ts';

const countStatement = {
  name: 'count-from-id',
  text: `select count(*) as rows, min(id) as "firstId", max(id) as "lastId" from outbox where id >= $1`,
};

/** What a resync from an id publishes again; what lies before is passed over for good. */
export interface ResyncPlan {
  readonly rows: number;
  readonly firstId: number | null;
  readonly lastId: number | null;
}

export const planResync = async (db: SqlRunner, fromId: number): Promise<ResyncPlan> => {
  const [row] = await db.execute<ResyncPlan>(countStatement, [fromId]);
  return row ?? { rows: 0, firstId: null, lastId: null };
};

const forgetStatement = { name: 'forget-log-positions', text: 'delete from outbox_wal_position' };

// No lease is behind it, which the token 0 says.
const resyncStatement = {
  name: 'resync-cursor',
  text: `
    insert into outbox_cursor (from_snapshot, to_snapshot, last_id, lease_token, system_identifier, shards, shard)
    select $1::pg_snapshot, pg_current_snapshot(), $2::bigint - 1, 0, system_identifier, $3, shard
    from pg_control_system(), generate_series(1, $3::integer) as shard`,
};

/**
 * Publishes everything from an id on again, whatever the cursor said: after a restore from a dump, when its transaction
 * ids mean nothing any more. To be run in a transaction. Consumers drop what they have had; what lies before the id is
 * taken for published.
 */
export const resyncCursor = async (tx: SqlRunner, fromId: number): Promise<void> => {
  // First of all: what the relays at work publish now does not move their cursors any more.
  const shards = await lockSharding(tx);
  await fenceShards(tx, { shards, by: 'resync' });
  await tx.execute(forgetStatement);
  await tx.execute(resyncStatement, [startOfJournal.from, fromId, shards]);
};
