import type { Database, SqlRunner } from '../postgres/database.ts';
import type { OutboxCursor } from './outbox-cursor.ts';
import { inShard, type Shard, singleShard, statementSuffix } from './shard.ts';
import { type StoredRow, storedColumns, storedRowsOf } from './stored-row.ts';

/** A delta and the ids it lies between, so that pages walk the primary key there and nowhere else. */
export interface OutboxDelta {
  readonly cursor: OutboxCursor;
  readonly firstId: number;
  readonly finalId: number;
}

// A row is missing from `from` when its transaction began after that snapshot or was under way in it. Asked like this,
// both conditions are lookups in the index on (tx_id, id); a transaction left open for hours costs one lookup more. One
// lookup each, which `offset 0` keeps so: as a list of unknown length they would make the planner walk the whole table
// once a few large transactions have loaded it.
const notIn = (snapshot: string) => `
      select id, tx_id from outbox where tx_id >= pg_snapshot_xmax(${snapshot})
      union all
      select written.id, written.tx_id from pg_snapshot_xip(${snapshot}) as open_then(xid)
      cross join lateral (select id, tx_id from outbox where tx_id = xid offset 0) written`;

// Without the `+ 0` the planner would look for the smallest id along the primary key and walk the whole table for it.
const openStatement = {
  name: 'open-outbox-delta',
  text: `
    select pg_current_snapshot()::text as "to", min(id + 0) as "firstId", max(id + 0) as "finalId"
    from (${notIn('$1::pg_snapshot')}) delta`,
};

/** Everything that has been committed since the cursor's snapshot, or nothing. */
export const openOutboxDelta = async (
  db: SqlRunner,
  cursor: OutboxCursor,
): Promise<OutboxDelta | undefined> => {
  const [row] = await db.execute<{ to: string; firstId: number | null; finalId: number | null }>(
    openStatement,
    [cursor.from],
  );
  if (!row || row.firstId === null || row.finalId === null) return undefined;
  return {
    cursor: { from: cursor.from, to: row.to, lastId: row.firstId - 1 },
    firstId: row.firstId,
    finalId: row.finalId,
  };
};

const resumeStatement = {
  name: 'resume-outbox-delta',
  text: `
    select coalesce(min(id + 0), 0) as "firstId", coalesce(max(id + 0), 0) as "finalId"
    from (${notIn('$1::pg_snapshot')}) delta
    where pg_visible_in_snapshot(tx_id, $2::pg_snapshot) and id > $3`,
};

/** The rest of a delta that an earlier relay began. */
export const resumeOutboxDelta = async (db: SqlRunner, cursor: OutboxCursor): Promise<OutboxDelta> => {
  const [row] = await db.execute<{ firstId: number; finalId: number }>(resumeStatement, [
    cursor.from,
    cursor.to,
    cursor.lastId,
  ]);
  if (!row) throw new Error('An aggregate query answered without a row');
  return { cursor, ...row };
};

/** However large the rows are: a page of many large ones is cut, and the rest comes with the next. */
const pageBytesMax = 8 * 1024 * 1024;

const pageStatement = (shard: Shard) => ({
  name: `read-outbox-page${statementSuffix(shard)}`,
  text: `
    select ${storedColumns}
    from outbox
    where id > $3 and id <= $4
      and not pg_visible_in_snapshot(tx_id, $1::pg_snapshot)
      and pg_visible_in_snapshot(tx_id, $2::pg_snapshot)
      ${inShard(shard)}
    order by id
    limit $5`,
});

/**
 * The next rows of a delta in id order, which keeps every aggregate in order: version n+1 is inserted after n is visible.
 * The delta is that of the whole journal; of its rows a shard gets its own.
 */
export const readOutboxPage = async (
  db: Database,
  delta: OutboxDelta,
  rowsMax: number,
  shard: Shard = singleShard,
): Promise<readonly StoredRow[]> => {
  const { from, to, lastId } = delta.cursor;
  const values = [from, to, lastId, delta.finalId, rowsMax];
  return storedRowsOf(await db.readBinary(pageStatement(shard), values, { bytesMax: pageBytesMax }));
};

const pendingStatement = (shard: Shard) => ({
  name: `count-pending-outbox-rows${statementSuffix(shard)}`,
  text: `
    select count(*) as count, min(created_at) as "oldestAt"
    from outbox join (${notIn('$1::pg_snapshot')}) missing using (id)
    where not (pg_visible_in_snapshot(outbox.tx_id, $2::pg_snapshot) and id <= $3) ${inShard(shard)}`,
});

/** How many committed rows the cursor has not passed yet, and since when the oldest waits. */
export const countPending = async (
  db: SqlRunner,
  cursor: OutboxCursor,
  shard: Shard = singleShard,
): Promise<{ readonly count: number; readonly oldestAt: Date | null }> => {
  const [row] = await db.execute<{ count: number; oldestAt: Date | null }>(pendingStatement(shard), [
    cursor.from,
    cursor.to,
    cursor.lastId,
  ]);
  return row ?? { count: 0, oldestAt: null };
};

const betweenStatement = (shard: Shard) => ({
  name: `count-outbox-rows-between${statementSuffix(shard)}`,
  text: `
    select count(*) as count
    from outbox join (${notIn('$1::pg_snapshot')}) missing using (id)
    where not (pg_visible_in_snapshot(outbox.tx_id, $2::pg_snapshot) and id <= $3)
      and (pg_visible_in_snapshot(outbox.tx_id, $4::pg_snapshot)
        or pg_visible_in_snapshot(outbox.tx_id, $5::pg_snapshot) and id <= $6) ${inShard(shard)}`,
});

/** How many rows of a shard lie behind `reached` and still before a cursor. */
export const countBetween = async (
  db: SqlRunner,
  { shard, cursor, reached }: { shard: Shard; cursor: OutboxCursor; reached: OutboxCursor },
): Promise<number> => {
  const values = [cursor.from, cursor.to, cursor.lastId, reached.from, reached.to, reached.lastId];
  const [row] = await db.execute<{ count: number }>(betweenStatement(shard), values);
  return row?.count ?? 0;
};
