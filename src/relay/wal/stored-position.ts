import type { SqlRunner } from '../../postgres/database.ts';
import { formatLsn, parseLsn } from '../../postgres/lsn.ts';
import type { Lease } from '../lease.ts';
import { ForeignCursor } from '../outbox-cursor.ts';
import { holdLease } from './hold-lease.ts';
import type { WalPosition } from './wal-queue.ts';

export interface StoredPosition {
  readonly position: WalPosition;
  /** Rows visible in this snapshot are the cursor's, and it has not been seen to have passed them all. */
  readonly cursorUntil: string | null;
  /** The timeline whose log was read up to the position. */
  readonly timeline: number;
  /** The one that the server writes now. Another one when it has been promoted since. */
  readonly serverTimeline: number;
}

const loadStatement = {
  name: 'load-wal-position',
  text: `
    select lsn::text as lsn, rows_settled as "rowsSettled", cursor_until::text as "cursorUntil",
           timeline, server_timeline() as "serverTimeline",
           system_identifier = (select system_identifier from pg_control_system()) as "sameSystem"
    from outbox_wal_position where slot = $1 order by id desc limit 1`,
};

interface LoadedPosition extends Omit<StoredPosition, 'position'> {
  readonly lsn: string;
  readonly rowsSettled: number;
  readonly sameSystem: boolean;
}

export const loadPosition = async (db: SqlRunner, slot: string): Promise<StoredPosition | undefined> => {
  const [row] = await db.execute<LoadedPosition>(loadStatement, [slot]);
  if (!row) return undefined;
  if (!row.sameSystem) {
    throw new ForeignCursor(
      'The position in the write-ahead log was stored by another database server, as after a restore from a dump: it says nothing about this journal',
    );
  }
  const { cursorUntil, timeline, serverTimeline } = row;
  return {
    position: { lsn: parseLsn(row.lsn), rows: row.rowsSettled },
    cursorUntil,
    timeline,
    serverTimeline,
  };
};

// The snapshot is taken when the statement begins and the end of the log is read while it runs. So whatever the
// snapshot shows was committed below that end: when the relay has settled everything up to there, the cursor can go on
// from the snapshot.
// A server that was promoted writes another log, in which the same position stands for other transactions.
const moveStatement = {
  name: 'move-wal-position',
  text: `
    insert into outbox_wal_position
      (slot, lsn, rows_settled, timeline, mark_snapshot, mark_lsn, system_identifier, lease_token)
    select $1, $2::pg_lsn, $3, $6, pg_current_snapshot(), pg_current_wal_insert_lsn(),
           system.system_identifier, lease.token
    from (select token from scheduler_lock where name = $4 and token = $5 for share) lease,
         pg_control_system() system
    where server_timeline() = $6 and $2::pg_lsn <= pg_current_wal_insert_lsn()
    returning id`,
};

/** The server has been promoted since the log was read: what the position stood for may not be there any more. */
export class OtherTimeline extends Error {
  override readonly name = 'OtherTimeline';
}

export interface PositionMove {
  readonly slot: string;
  readonly position: WalPosition;
  /** The timeline whose log was read. */
  readonly timeline: number;
  readonly lease: Lease;
}

/** False when the lease has gone to another relay. */
export const movePosition = async (
  db: SqlRunner,
  { slot, position, timeline, lease }: PositionMove,
): Promise<boolean> => {
  const rows = await db.execute(moveStatement, [
    slot,
    formatLsn(position.lsn),
    position.rows,
    lease.name,
    lease.token,
    timeline,
  ]);
  if (rows.length > 0) return true;
  if (!(await holdLease(db, lease))) return false;
  throw new OtherTimeline(
    `PostgreSQL was promoted since the relay read its log up to ${formatLsn(position.lsn)} on timeline ${timeline}; the relay reads again what the server has now`,
  );
};

const beginStatement = {
  name: 'begin-wal-position',
  text: `
    insert into outbox_wal_position
      (slot, lsn, rows_settled, timeline, cursor_until, mark_snapshot, mark_lsn, system_identifier)
    select $1, $2::pg_lsn, 0, $4, $3::pg_snapshot, $3::pg_snapshot, $2::pg_lsn, system_identifier
    from pg_control_system(), (select from relay_sharding where shards = 1 for share) single
    where server_timeline() = $4
    returning id`,
};

/**
 * Where a new slot begins; the rows before are left to the cursor. False when there is not one cursor but several, or the
 * server was promoted while the slot was made.
 */
export const beginPosition = async (
  db: SqlRunner,
  begin: { slot: string; lsn: string; timeline: number; cursorUntil: string },
): Promise<boolean> => {
  const { slot, lsn, timeline, cursorUntil } = begin;
  return (await db.execute(beginStatement, [slot, lsn, cursorUntil, timeline])).length > 0;
};

const pruneStatement = {
  name: 'prune-wal-positions',
  text: `
    delete from outbox_wal_position
    where slot = $1 and id < (
      select max(id) from outbox_wal_position
      where slot = $1 and mark_lsn <= (
        select lsn from outbox_wal_position where slot = $1 order by id desc limit 1))`,
};

/** Drops the positions that no way back to the cursor needs any more. */
export const prunePositions = async (db: SqlRunner, slot: string): Promise<void> => {
  await db.execute(pruneStatement, [slot]);
};

const settledSnapshotStatement = {
  name: 'find-settled-snapshot',
  text: `
    select mark_snapshot::text as snapshot from outbox_wal_position
    where slot = $1 and mark_lsn <= (
      select lsn from outbox_wal_position where slot = $1 order by id desc limit 1)
    order by id desc limit 1`,
};

/** The newest snapshot of which every row is known to be settled. */
export const findSettledSnapshot = async (db: SqlRunner, slot: string): Promise<string> => {
  const [row] = await db.execute<{ snapshot: string }>(settledSnapshotStatement, [slot]);
  if (!row) throw new Error(`No snapshot is stored with the positions of the slot ${slot}`);
  return row.snapshot;
};

const timelineStatement = {
  name: 'read-server-timeline',
  text: 'select server_timeline() as timeline',
};

/** The timeline that the server writes. */
export const readTimeline = async (db: SqlRunner): Promise<number> => {
  const [row] = await db.execute<{ timeline: number }>(timelineStatement);
  if (!row) throw new Error('A query for one row answered without a row');
  return row.timeline;
};

const forgetStatement = {
  name: 'forget-wal-positions',
  text: 'delete from outbox_wal_position where slot = $1',
};

export const forgetPositions = async (db: SqlRunner, slot: string): Promise<void> => {
  await db.execute(forgetStatement, [slot]);
};
