import type { SqlRunner } from '../postgres/database.ts';
import { begunAfter, openIn, restoredUntilId } from './missing-rows.ts';
import {
  type CursorRow,
  type DeltaBounds,
  isBetweenDeltas,
  type MoveFrom,
  type OutboxCursor,
  type StoredCursor,
  standsOn,
} from './outbox-cursor.ts';
import { singleShard } from './shard.ts';

/** What was committed between two snapshots, as far as it is not passed yet. */
export interface OutboxDelta {
  readonly cursor: OutboxCursor;
  readonly bounds: DeltaBounds;
}

// Without the `+ 0` the planner would look for the smallest id along the primary key and walk the whole table for it.
const boundsOf = (snapshot: string) => `
    select least(begun.first_id, opened.first_id) - 1 as last_id,
           greatest(begun.final_id, opened.final_id) as final_id,
           coalesce(begun.first_id, opened.final_id + 1) as first_id
    from (select min(id + 0) as first_id, max(id + 0) as final_id from (${begunAfter(snapshot)}) rows) begun,
         (select min(id) as first_id, max(id) as final_id from (${openIn(snapshot)}) rows) opened`;

const findStatement = {
  name: 'find-outbox-delta',
  text: `
    select pg_current_snapshot()::text as "to", last_id as "lastId", first_id as "firstId", final_id as "finalId"
    from (${boundsOf('$1::pg_snapshot')}) bounds
    where final_id is not null`,
};

interface FoundDelta extends DeltaBounds {
  readonly to: string;
  readonly lastId: number;
}

const deltaOf = (from: string, { to, lastId, firstId, finalId }: FoundDelta): OutboxDelta => ({
  cursor: { from, to, lastId },
  bounds: { firstId, finalId },
});

/** Everything that has been committed since a snapshot, or nothing; for whoever reads without moving the relay's cursor. */
export const findOutboxDelta = async (db: SqlRunner, from: string): Promise<OutboxDelta | undefined> => {
  const [found] = await db.execute<FoundDelta>(findStatement, [from]);
  return found && deltaOf(from, found);
};

// The lease is not locked while there is nothing new, or every poll would use up a transaction id. That there is nothing
// new is worth nothing either when the row that the snapshot comes from is not there. The new row need not be on
// disk when it is told: whoever loses it, in a crash or a promotion, loses the right to move the cursor beyond it.
const openStatement = {
  name: 'open-outbox-delta',
  text: `
    with bounds as materialized (${boundsOf('$1::pg_snapshot')}),
    origin as materialized (
      select ${standsOn({ shards: '$4', shard: '$5', id: '$6', writtenAt: '$7' })} as stands
    ),
    opened as (
      insert into outbox_cursor (from_snapshot, to_snapshot, last_id, first_id, final_id, lease_token,
                                 system_identifier, timeline, shards, shard)
      select $1::pg_snapshot, pg_current_snapshot(), bounds.last_id, bounds.first_id, bounds.final_id, lease.token,
             system.system_identifier, server_timeline(), $4, $5
      from bounds,
           (select token from scheduler_lock
            where (select final_id from bounds) is not null and name = $2 and token = $3
            for share) lease,
           pg_control_system() system,
           set_config('synchronous_commit', 'off', true)
      where (select stands from origin)
      returning id, created_at, to_snapshot
    )
    select opened.id, opened.created_at::text as "writtenAt", opened.to_snapshot::text as "to",
           bounds.last_id as "lastId", bounds.first_id as "firstId", bounds.final_id as "finalId"
    from bounds left join opened on true
    where bounds.final_id is not null or not (select stands from origin)`,
};

export type OpenedDelta =
  | { readonly kind: 'opened'; readonly delta: OutboxDelta; readonly row: CursorRow }
  | { readonly kind: 'nothing-new' }
  /** The lease has gone to another relay, or the server is another one, without the row that the cursor comes from. */
  | { readonly kind: 'refused' };

/** Everything that has been committed since the cursor's snapshot, stored as a delta before anything of it is published. */
export const openOutboxDelta = async (
  db: SqlRunner,
  { from }: OutboxCursor,
  { row, lease, shard = singleShard }: MoveFrom,
): Promise<OpenedDelta> => {
  const [opened] = await db.execute<(FoundDelta & CursorRow) | { readonly id: null }>(openStatement, [
    from,
    lease.name,
    lease.token,
    shard.of,
    shard.number,
    row?.id ?? null,
    row?.writtenAt ?? null,
  ]);
  if (!opened) return { kind: 'nothing-new' };
  if (opened.id === null) return { kind: 'refused' };
  const { id, writtenAt } = opened;
  return { kind: 'opened', delta: deltaOf(from, opened), row: { id, writtenAt } };
};

const resumeStatement = {
  name: 'resume-outbox-delta',
  text: `
    select coalesce(min(id + 0), 0) as "firstId", coalesce(max(id + 0), 0) as "finalId"
    from (${begunAfter('$1::pg_snapshot')} union all ${openIn('$1::pg_snapshot')}) delta
    where pg_visible_in_snapshot(tx_id, $2::pg_snapshot) and id > $3`,
};

/** Which ids a delta lies between that was begun without noting them. */
export const findBounds = async (db: SqlRunner, { from, to, lastId }: OutboxCursor): Promise<DeltaBounds> => {
  const [row] = await db.execute<DeltaBounds>(resumeStatement, [from, to, lastId]);
  if (!row) throw new Error('An aggregate query answered without a row');
  return row;
};

const restoredStatement = { name: 'find-restored-until', text: `select ${restoredUntilId} as "finalId"` };

/** The rest of a delta that was begun earlier; nothing when the cursor lies between two. */
export const resumeOutboxDelta = async (
  db: SqlRunner,
  { cursor, bounds }: StoredCursor,
): Promise<OutboxDelta | undefined> => {
  if (isBetweenDeltas(cursor)) return undefined;
  if (cursor.restoredLastId !== undefined) {
    const [row] = await db.execute<{ finalId: number }>(restoredStatement);
    return { cursor, bounds: { firstId: 0, finalId: row?.finalId ?? 0 } };
  }
  if (bounds) return { cursor, bounds };
  const found = await findBounds(db, cursor);
  return { cursor: { ...cursor, lastId: Math.max(cursor.lastId, found.firstId - 1) }, bounds: found };
};
