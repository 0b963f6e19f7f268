import type { SqlRunner } from '../postgres/database.ts';
import type { Lease } from './lease.ts';
import { type Shard, singleShard } from './shard.ts';

/**
 * How far the relay has come: every row visible in `from` is published, and of the rows visible in `to` but not in
 * `from` (the delta) those with an id up to `lastId`. Snapshots, because ids are given out before the commit: a
 * higher id may well become visible first.
 */
export interface OutboxCursor {
  readonly from: string;
  readonly to: string;
  readonly lastId: number;
}

/** A snapshot in which nothing is visible yet. */
const beforeEverything = '1:1:';
export const startOfJournal: OutboxCursor = { from: beforeEverything, to: beforeEverything, lastId: 0 };

/** Between two deltas both snapshots are the same. */
export const isBetweenDeltas = (cursor: OutboxCursor): boolean => cursor.from === cursor.to;

export const afterDelta = (cursor: OutboxCursor): OutboxCursor => ({
  from: cursor.to,
  to: cursor.to,
  lastId: 0,
});

/** The database is another one than the cursor speaks of: transaction ids mean nothing here. */
export class ForeignCursor extends Error {
  override readonly name = 'ForeignCursor';
}

export const requireOwnCursor = ({
  sameSystem,
  fromTheFuture,
}: {
  sameSystem: boolean;
  fromTheFuture: boolean;
}): void => {
  if (sameSystem && !fromTheFuture) return;
  throw new ForeignCursor(
    'The relay cursor was written by another database server, as after a restore from a dump: its transaction ids say nothing about this journal. Decide from where on to publish again: npx millrace relay resync --from-id N --dry-run',
  );
};

const loadStatement = {
  name: 'load-outbox-cursor',
  text: `
    select from_snapshot::text as "from", to_snapshot::text as "to", last_id as "lastId",
           system_identifier = (select system_identifier from pg_control_system()) as "sameSystem",
           pg_snapshot_xmax(to_snapshot) > pg_snapshot_xmax(pg_current_snapshot()) as "fromTheFuture"
    from outbox_cursor where shards = $1 and shard = $2 order by id desc limit 1`,
};

export const loadOutboxCursor = async (db: SqlRunner, shard: Shard = singleShard): Promise<OutboxCursor> => {
  const [row] = await db.execute<OutboxCursor & { sameSystem: boolean; fromTheFuture: boolean }>(
    loadStatement,
    [shard.of, shard.number],
  );
  if (!row) return startOfJournal;
  requireOwnCursor(row);
  return { from: row.from, to: row.to, lastId: row.lastId };
};

const moveStatement = {
  name: 'move-outbox-cursor',
  text: `
    insert into outbox_cursor (from_snapshot, to_snapshot, last_id, lease_token, system_identifier, shards, shard)
    select $1::pg_snapshot, $2::pg_snapshot, $3, lease.token, system.system_identifier, $6, $7
    from (select token from scheduler_lock where name = $4 and token = $5 for share) lease, pg_control_system() system
    returning id`,
};

/** False when the lease has gone to another relay in the meantime: then that one's cursor counts. */
export const moveOutboxCursor = async (
  db: SqlRunner,
  cursor: OutboxCursor,
  lease: Lease,
  shard: Shard = singleShard,
): Promise<boolean> => {
  const rows = await db.execute(moveStatement, [
    cursor.from,
    cursor.to,
    cursor.lastId,
    lease.name,
    lease.token,
    shard.of,
    shard.number,
  ]);
  return rows.length > 0;
};
