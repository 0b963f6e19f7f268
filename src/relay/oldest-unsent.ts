import type { SqlRunner } from '../postgres/database.ts';
import { restoredUntilId } from './missing-rows.ts';
import { type CursorColumns, ForeignCursor } from './outbox-cursor.ts';
import { inShard, type Shard, statementSuffix } from './shard.ts';

/** Events are written down nearly in the order of their times: the oldest is among the first of what waits. */
const firstRows = 1000;

interface ShardPosition extends Shard {
  readonly position: CursorColumns;
  readonly isForeign: boolean;
}

const positionStatement = {
  name: 'read-positions-of-unsent',
  text: `
    select p.shard as number, p.shards as of,
           json_build_object('from', p.from_snapshot::text, 'to', p.to_snapshot::text, 'lastId', p.last_id,
                             'restoredLastId', p.restored_last_id) as position,
           coalesce(p.system_identifier <> (select system_identifier from pg_control_system()), false)
             or pg_snapshot_xmax(p.to_snapshot) > pg_snapshot_xmax(pg_current_snapshot()) as "isForeign"
    from outbox_position p order by p.shard`,
};

// As in the figures of a shard: lookups in the index on (tx_id, id), from the oldest transaction on. What the shard has passed
// is left out before the limit and not after it: otherwise the first rows could all be passed, and one behind them be missed.
const unsentStatement = (shard: Shard) => ({
  name: `find-oldest-unsent${statementSuffix(shard)}`,
  text: `
    select min(occurred_at) as oldest from (
      (select occurred_at from outbox
       where tx_id >= pg_snapshot_xmax($1::pg_snapshot) and tx_id < pg_snapshot_xmax(pg_current_snapshot())
         and id > ${restoredUntilId}
         and not (pg_visible_in_snapshot(tx_id, $2::pg_snapshot) and id <= $3) ${inShard(shard)}
       order by tx_id, id limit $5)
      union all
      (select written.occurred_at from pg_snapshot_xip($1::pg_snapshot) as open_then(xid)
       cross join lateral (
         select occurred_at from outbox
         where tx_id = xid and id > ${restoredUntilId}
           and not (pg_visible_in_snapshot(tx_id, $2::pg_snapshot) and id <= $3) ${inShard(shard)}
         order by tx_id, id limit $5) written)
      union all
      (select occurred_at from outbox
       where id > $4::bigint and id <= ${restoredUntilId} ${inShard(shard)} order by id limit $5)
    ) unsent`,
});

// One that waits for an operator may wait for ever, and so may those behind it.
const retriedStatement = {
  name: 'find-oldest-retried',
  text: `
    select min(o.occurred_at) as oldest
    from (
      select outbox_id from outbox_failed waits
      where waits.dead_at is null and not exists (
        select from outbox_failed dead
        where dead.aggregate_type = waits.aggregate_type and dead.aggregate_id = waits.aggregate_id
          and dead.outbox_id < waits.outbox_id and dead.dead_at is not null)
      order by outbox_id limit $1
    ) retried
    join outbox o on o.id = retried.outbox_id`,
};

/**
 * The time of the oldest event that is committed and not in its topic, but will be without anybody's help: not passed by the
 * relay yet, or tried again. Undefined where there is none.
 */
export const findOldestUnsent = async (db: SqlRunner): Promise<Date | undefined> => {
  const found: (Date | null)[] = [];
  // Where the relay sets a row aside meanwhile, it is found in one place or the other: the positions are read first.
  const shards = await db.execute<ShardPosition>(positionStatement);
  if (shards.length === 0) throw new Error('The relay has no position');
  for (const { position, isForeign, ...shard } of shards) {
    if (isForeign) throw new ForeignCursor('The position is that of another server');
    const { from, to, lastId, restoredLastId } = position;
    const [row] = await db.execute<{ oldest: Date | null }>(unsentStatement(shard), [
      from,
      to,
      lastId,
      restoredLastId,
      firstRows,
    ]);
    found.push(row?.oldest ?? null);
  }
  const [retried] = await db.execute<{ oldest: Date | null }>(retriedStatement, [firstRows]);
  const times = [...found, retried?.oldest ?? null].filter((time) => time !== null);
  return times.length === 0 ? undefined : times.reduce((a, b) => (a <= b ? a : b));
};
