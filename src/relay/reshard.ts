import { writeAudit } from '../operator-audit/write-audit.ts';
import { OperatorError } from '../operator-error.ts';
import type { Database, SqlRunner } from '../postgres/database.ts';
import { commonCursor } from './common-cursor.ts';
import { countBetween } from './count-between.ts';
import { fenceShards, lockSharding } from './fence-shards.ts';
import type { ShardPosition } from './load-positions.ts';
import { loadOutboxCursor, type OutboxCursor } from './outbox-cursor.ts';
import { shardsOf } from './shard.ts';
import { loadShardCount } from './sharding.ts';

export interface ReshardReport {
  readonly from: number;
  readonly to: number;
  /** Where all new shards begin; nothing when the number stays as it is. */
  readonly cursor: OutboxCursor | null;
  /** Events that were published and are published again, because some shards were ahead of others. */
  readonly repeated: number;
}

/** Where the old shards stand, and where the new ones begin because of it. */
interface MeetingPoint {
  readonly old: readonly ShardPosition[];
  readonly cursor: OutboxCursor;
}

/** What a change would mean at this moment. */
export const planReshard = async (db: SqlRunner, to: number): Promise<ReshardReport> => {
  const from = await loadShardCount(db);
  if (from === to) return unchanged(to);
  await requireNoLogPosition(db, to);
  return tell(db, to, await findMeetingPoint(db, from));
};

/**
 * Changes the number of shards while relays run. In one transaction: the leases of the old shards are taken away, so that
 * their cursors stand still; the new ones begin where all of those have been. Whatever an old relay still publishes is
 * published again in its place, by whoever has the key now.
 */
export const reshard = async (
  database: Database,
  { shards: to, who }: { shards: number; who: string },
): Promise<ReshardReport> => {
  const meeting = await database.transaction(async (tx) => {
    const from = await lockSharding(tx);
    if (from === to) return undefined;
    await requireNoLogPosition(tx, to);
    await fenceShards(tx, { shards: from, by: 'reshard' });
    const found = await findMeetingPoint(tx, from);
    await divide(tx, to, found.cursor);
    await writeAudit(tx, { who, action: 'relay.reshard', target: { from, to, ...found } });
    return found;
  });
  return meeting ? tell(database, to, meeting) : unchanged(to);
};

const unchanged = (shards: number): ReshardReport => ({
  from: shards,
  to: shards,
  cursor: null,
  repeated: 0,
});

const findMeetingPoint = async (db: SqlRunner, shards: number): Promise<MeetingPoint> => {
  const old: ShardPosition[] = [];
  for (const shard of shardsOf(shards)) {
    const { cursor } = await loadOutboxCursor(db, shard);
    old.push({ shard, cursor });
  }
  return { old, cursor: commonCursor(old.map(({ cursor }) => cursor)) };
};

/** Counted when all is done: on a long backlog it takes its time, and the relays need not wait for it. */
const tell = async (db: SqlRunner, to: number, { old, cursor }: MeetingPoint): Promise<ReshardReport> => {
  let repeated = 0;
  for (const { shard, cursor: reached } of old) {
    repeated += await countBetween(db, { shard, cursor, reached });
  }
  return { from: old.length, to, cursor, repeated };
};

const divideStatement = {
  name: 'divide-into-shards',
  text: `
    with division as (
      update relay_sharding
      set shards = $4, changed_at = clock_timestamp(), begun_at = coalesce(begun_at, clock_timestamp())
    ), forgotten as (
      delete from relay_suspicion
    )
    insert into outbox_cursor (from_snapshot, to_snapshot, last_id, restored_last_id, lease_token, system_identifier,
                               timeline, shards, shard)
    select $1::pg_snapshot, $2::pg_snapshot, $3, $5, 0, system_identifier, server_timeline(), $4, shard
    from pg_control_system(), generate_series(1, $4::integer) as shard`,
};

const divide = async (tx: SqlRunner, shards: number, cursor: OutboxCursor): Promise<void> => {
  const { from, to, lastId, restoredLastId = null } = cursor;
  await tx.execute(divideStatement, [from, to, lastId, shards, restoredLastId]);
};

const logPositionStatement = {
  name: 'find-log-position',
  text: `
    select exists (select from outbox_wal_position) or exists (select from relay_log_loss) as found`,
};

const requireNoLogPosition = async (tx: SqlRunner, shards: number): Promise<void> => {
  const [row] = await tx.execute<{ found: boolean }>(logPositionStatement);
  if (!row?.found) return;
  throw new OperatorError(
    `The relay reads the write-ahead log, which works in one shard only; ${shards} were asked for`,
    {
      remedy:
        'Start the relays with RELAY_SOURCE=cursor, wait until one of them says that it reads by snapshots again, and ask again',
    },
  );
};
