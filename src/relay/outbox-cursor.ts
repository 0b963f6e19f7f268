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
  /**
   * Only while rows that came with a dump are published again: of those the ones up to here are passed. They go by id and
   * come before everything else, because their transaction ids are those of another server.
   */
  readonly restoredLastId?: number;
}

/** A row of `outbox_cursor`, told apart by its number and its moment: a promoted server gives out numbers again. */
export interface CursorRow {
  readonly id: number;
  readonly writtenAt: string;
}

/** A cursor and the row that has it; null when there is none yet. */
export interface StoredCursor {
  readonly cursor: OutboxCursor;
  readonly row: CursorRow | null;
  /** Where the rows of the delta lie, when whoever opened it has noted it. */
  readonly bounds?: DeltaBounds;
}

/** Which ids a delta lies between. */
export interface DeltaBounds {
  /** The first row of a transaction that began after `from`. Those that were open in it may have written earlier ones. */
  readonly firstId: number;
  readonly finalId: number;
}

/** A snapshot in which nothing is visible yet. */
const beforeEverything = '1:1:';
export const startOfJournal: OutboxCursor = { from: beforeEverything, to: beforeEverything, lastId: 0 };

/** Between two deltas both snapshots are the same, and no row of a dump is left. */
export const isBetweenDeltas = ({ from, to, restoredLastId }: OutboxCursor): boolean =>
  from === to && restoredLastId === undefined;

/** Rows of a dump are a delta of their own, in front of the others. */
export const afterDelta = ({ from, to, lastId, restoredLastId }: OutboxCursor): OutboxCursor =>
  restoredLastId === undefined ? { from: to, to, lastId: 0 } : { from, to, lastId };

/** The id up to which a delta is passed. */
export const lastIdOf = ({ lastId, restoredLastId }: OutboxCursor): number => restoredLastId ?? lastId;

export const passedUpTo = (cursor: OutboxCursor, id: number): OutboxCursor =>
  cursor.restoredLastId === undefined ? { ...cursor, lastId: id } : { ...cursor, restoredLastId: id };

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

/** A row as the statements of this folder name it. */
export interface CursorColumns {
  readonly from: string;
  readonly to: string;
  readonly lastId: number;
  readonly restoredLastId: number | null;
}

export const toCursor = ({ from, to, lastId, restoredLastId }: CursorColumns): OutboxCursor => ({
  from,
  to,
  lastId,
  ...(restoredLastId !== null && { restoredLastId }),
});

const loadStatement = {
  name: 'load-outbox-cursor',
  text: `
    select id, created_at::text as "writtenAt", from_snapshot::text as "from", to_snapshot::text as "to",
           last_id as "lastId", restored_last_id as "restoredLastId", first_id as "firstId", final_id as "finalId",
           system_identifier = (select system_identifier from pg_control_system()) as "sameSystem",
           pg_snapshot_xmax(to_snapshot) > pg_snapshot_xmax(pg_current_snapshot()) as "fromTheFuture"
    from outbox_cursor where shards = $1 and shard = $2 order by id desc limit 1`,
};

interface LoadedRow extends CursorColumns, CursorRow {
  readonly firstId: number | null;
  readonly finalId: number | null;
  readonly sameSystem: boolean;
  readonly fromTheFuture: boolean;
}

export const loadOutboxCursor = async (db: SqlRunner, shard: Shard = singleShard): Promise<StoredCursor> => {
  const [row] = await db.execute<LoadedRow>(loadStatement, [shard.of, shard.number]);
  if (!row) return { cursor: startOfJournal, row: null };
  requireOwnCursor(row);
  const { id, writtenAt, firstId, finalId } = row;
  return {
    cursor: toCursor(row),
    row: { id, writtenAt },
    ...(firstId !== null && finalId !== null && { bounds: { firstId, finalId } }),
  };
};

/** What a move goes on from, and who makes it. */
export interface MoveFrom {
  /** The row that the cursor in memory comes from. */
  readonly row: CursorRow | null;
  readonly lease: Lease;
  readonly shard?: Shard;
}

/**
 * A condition of every move: the row that it goes on from is there and is the newest. What is in memory may come from a
 * server that has been replaced by a standby, which lacks the end of its log and gives the same transaction ids to others.
 * Stored rows are safe: a server that has one has everything that its snapshots show.
 */
export const standsOn = (parameters: {
  readonly shards: string;
  readonly shard: string;
  readonly id: string;
  readonly writtenAt: string;
}): string => {
  const { shards, shard, id, writtenAt } = parameters;
  return `coalesce((select id = ${id}::bigint and created_at = ${writtenAt}::timestamptz from outbox_cursor
                    where shards = ${shards}::integer and shard = ${shard}::integer order by id desc limit 1),
                   ${id}::bigint is null)`;
};

const moveStatement = {
  name: 'move-outbox-cursor',
  text: `
    insert into outbox_cursor (from_snapshot, to_snapshot, last_id, restored_last_id, first_id, final_id, lease_token,
                               system_identifier, timeline, shards, shard)
    select $1::pg_snapshot, $2::pg_snapshot, $3, $4, $5, $6, lease.token, system.system_identifier, server_timeline(),
           $9, $10
    from (select token from scheduler_lock where name = $7 and token = $8 for share) lease, pg_control_system() system
    where ${standsOn({ shards: '$9', shard: '$10', id: '$11', writtenAt: '$12' })}
      and pg_snapshot_xmax($2::pg_snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
    returning id, created_at::text as "writtenAt"`,
};

/**
 * Undefined when the lease has gone to another relay in the meantime, or the server is another one, without the row that
 * the cursor comes from: then what is stored counts.
 */
export const moveOutboxCursor = async (
  db: SqlRunner,
  { cursor, bounds }: Pick<StoredCursor, 'cursor' | 'bounds'>,
  { row, lease, shard = singleShard }: MoveFrom,
): Promise<CursorRow | undefined> => {
  const [moved] = await db.execute<CursorRow>(moveStatement, [
    cursor.from,
    cursor.to,
    cursor.lastId,
    cursor.restoredLastId ?? null,
    bounds?.firstId ?? null,
    bounds?.finalId ?? null,
    lease.name,
    lease.token,
    shard.of,
    shard.number,
    row?.id ?? null,
    row?.writtenAt ?? null,
  ]);
  return moved;
};
