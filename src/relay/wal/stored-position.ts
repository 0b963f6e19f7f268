import type { SqlRunner } from '../../postgres/database.ts';
import { formatLsn, parseLsn } from '../../postgres/lsn.ts';
import type { Lease } from '../lease.ts';
import { ForeignCursor } from '../outbox-cursor.ts';
import type { WalPosition } from './wal-queue.ts';

export interface StoredPosition {
  readonly position: WalPosition;
  /** Rows visible in this snapshot are the cursor's, and it has not been seen to have passed them all. */
  readonly cursorUntil: string | null;
}

const loadStatement = {
  name: 'load-wal-position',
  text: `
    select lsn::text as lsn, rows_settled as "rowsSettled", cursor_until::text as "cursorUntil",
           system_identifier = (select system_identifier from pg_control_system()) as "sameSystem"
    from outbox_wal_position where slot = $1 order by id desc limit 1`,
};

interface LoadedPosition {
  readonly lsn: string;
  readonly rowsSettled: number;
  readonly cursorUntil: string | null;
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
  return { position: { lsn: parseLsn(row.lsn), rows: row.rowsSettled }, cursorUntil: row.cursorUntil };
};

// The snapshot is taken when the statement begins and the end of the log is read while it runs. So whatever the
// snapshot shows was committed below that end: when the relay has settled everything up to there, the cursor can go on
// from the snapshot.
const moveStatement = {
  name: 'move-wal-position',
  text: `
    insert into outbox_wal_position
      (slot, lsn, rows_settled, mark_snapshot, mark_lsn, system_identifier, lease_token)
    select $1, $2::pg_lsn, $3, pg_current_snapshot(), pg_current_wal_insert_lsn(),
           system.system_identifier, lease.token
    from (select token from scheduler_lock where name = $4 and token = $5 for share) lease,
         pg_control_system() system
    returning id`,
};

/** False when the lease has gone to another relay. */
export const movePosition = async (
  db: SqlRunner,
  { slot, position, lease }: { slot: string; position: WalPosition; lease: Lease },
): Promise<boolean> => {
  const rows = await db.execute(moveStatement, [
    slot,
    formatLsn(position.lsn),
    position.rows,
    lease.name,
    lease.token,
  ]);
  return rows.length > 0;
};

const beginStatement = {
  name: 'begin-wal-position',
  text: `
    insert into outbox_wal_position
      (slot, lsn, rows_settled, cursor_until, mark_snapshot, mark_lsn, system_identifier)
    select $1, $2::pg_lsn, 0, $3::pg_snapshot, $3::pg_snapshot, $2::pg_lsn, system_identifier
    from pg_control_system(), (select from relay_sharding where shards = 1 for share) single
    returning id`,
};

/** Where a new slot begins; the rows before are left to the cursor. False when there is not one cursor but several. */
export const beginPosition = async (
  db: SqlRunner,
  { slot, lsn, cursorUntil }: { slot: string; lsn: string; cursorUntil: string },
): Promise<boolean> => (await db.execute(beginStatement, [slot, lsn, cursorUntil])).length > 0;

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

const forgetStatement = {
  name: 'forget-wal-positions',
  text: 'delete from outbox_wal_position where slot = $1',
};

export const forgetPositions = async (db: SqlRunner, slot: string): Promise<void> => {
  await db.execute(forgetStatement, [slot]);
};
