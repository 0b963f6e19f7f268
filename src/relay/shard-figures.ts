import type { SqlRunner } from '../postgres/database.ts';
import { restoredUntilId } from './missing-rows.ts';
import type { CursorColumns } from './outbox-cursor.ts';
import { inShard, type Shard, statementSuffix } from './shard.ts';

/** How far one shard has come and what waits in it. */
export interface ShardFigures extends ShardProgress, Waiting {}

interface ShardProgress extends Shard {
  readonly position: CursorColumns;
  /** The position was written by another database server: what is said to be pending here means nothing. */
  readonly isForeign: boolean;
  /** When the relay last got further; null when it never did. */
  readonly movedAt: Date | null;
  /** The server's time: others' clocks may differ. */
  readonly now: Date;
}

interface Waiting {
  /** Committed and not passed yet. Estimated from ids above `exactPendingMax`. */
  readonly pending: number;
  /** Of those, how many are older than `overdueAfterMs`. */
  readonly overdue: number;
  readonly oldestPendingAt: Date | null;
}

/** Counting costs a few microseconds per event, and beyond this nobody needs to know it to the last one. */
export const exactPendingMax = 100_000;
export const overdueAfterMs = 5 * 60 * 1000;

const progressStatement = {
  name: 'read-shard-progress',
  text: `
    select p.shard as number, p.shards as of,
           json_build_object('from', p.from_snapshot::text, 'to', p.to_snapshot::text, 'lastId', p.last_id,
                             'restoredLastId', p.restored_last_id) as position,
           coalesce(p.system_identifier <> (select system_identifier from pg_control_system()), false)
             or pg_snapshot_xmax(p.to_snapshot) > pg_snapshot_xmax(pg_current_snapshot()) as "isForeign",
           greatest((select created_at from outbox_cursor c
                     where c.shards = p.shards and c.shard = p.shard order by c.id desc limit 1),
                    (select moved_at from outbox_wal_position order by id desc limit 1)) as "movedAt",
           clock_timestamp() as now
    from outbox_position p order by p.shard`,
};

// The oldest transactions come first in the index, so that a capped look at it still sees the oldest events. For each
// shard by itself, with its snapshots as parameters, and transaction by transaction: joined, the planner cannot know how
// little lies behind the snapshots and walks the whole table.
const waitingStatement = (shard: Shard) => ({
  name: `read-shard-waiting${statementSuffix(shard)}`,
  text: `
    with missing as (
      (select id, tx_id, partition_key, created_at from outbox
       where tx_id >= pg_snapshot_xmax($1::pg_snapshot) and tx_id < pg_snapshot_xmax(pg_current_snapshot())
         and id > ${restoredUntilId}
       order by tx_id, id limit $4)
      union all
      (select written.* from pg_snapshot_xip($1::pg_snapshot) as open_then(xid)
       cross join lateral (select id, tx_id, partition_key, created_at from outbox
                           where tx_id = xid and id > ${restoredUntilId} order by tx_id, id limit $4) written
       limit $4)
      union all
      (select id, null, partition_key, created_at from outbox
       where id > $6::bigint and id <= ${restoredUntilId} order by id limit $4)
    ),
    waiting as (
      select count(*) as counted, min(id) as "firstId", min(created_at) as "oldestPendingAt",
             count(*) filter (where created_at < clock_timestamp() - $5 * interval '1 millisecond') as overdue
      from missing
      where (tx_id is null or not (pg_visible_in_snapshot(tx_id, $2::pg_snapshot) and id <= $3)) ${inShard(shard)}
    )
    select case when (select count(*) from missing) < $4 then counted
                else greatest(counted, ((select max(id) from outbox) - "firstId" + 1) / ${shard.of}) end as pending,
           overdue, "oldestPendingAt"
    from waiting`,
});

/** Of every shard in force, at a cost that grows neither with the journal nor, beyond a point, with the backlog. */
export const readShardFigures = async (db: SqlRunner): Promise<readonly ShardFigures[]> => {
  const figures: ShardFigures[] = [];
  for (const progress of await db.execute<ShardProgress>(progressStatement)) {
    const { from, to, lastId, restoredLastId } = progress.position;
    const values = [from, to, lastId, exactPendingMax, overdueAfterMs, restoredLastId];
    const [waiting] = await db.execute<Waiting>(waitingStatement(progress), values);
    if (!waiting) throw new Error('An aggregate query answered without a row');
    figures.push({ ...progress, ...waiting });
  }
  return figures;
};
