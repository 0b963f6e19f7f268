import type { SqlRunner } from '../postgres/database.ts';
import type { OutboxCursor } from './outbox-cursor.ts';
import type { OutboxRow } from './outbox-source.ts';

/** A delta and the ids it lies between, so that pages walk the primary key there and nowhere else. */
export interface OutboxDelta {
  readonly cursor: OutboxCursor;
  readonly firstId: number;
  readonly finalId: number;
}

// A row is missing from `from` when its transaction began after that snapshot or was under way in it. Asked like this,
// both conditions are lookups in the index on (tx_id, id); a transaction left open for hours costs one lookup more.
const notIn = (snapshot: string) => `
      select id, tx_id from outbox where tx_id >= pg_snapshot_xmax(${snapshot})
      union all
      select id, tx_id from outbox where tx_id = any (array(select pg_snapshot_xip(${snapshot})))`;

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

const pageStatement = {
  name: 'read-outbox-page',
  text: `
    select id, event_id as "eventId", event_type as "eventType", source, aggregate_type as "aggregateType",
           aggregate_id as "aggregateId", aggregate_version as "aggregateVersion", partition_key as "partitionKey",
           request_id as "requestId", schema_fingerprint as "schemaFingerprint", payload,
           content_hash as "contentHash", traceparent, created_at as "createdAt"
    from outbox
    where id > $3 and id <= $4
      and not pg_visible_in_snapshot(tx_id, $1::pg_snapshot)
      and pg_visible_in_snapshot(tx_id, $2::pg_snapshot)
    order by id
    limit $5`,
};

/** The next rows of a delta in id order, which keeps every aggregate in order: version n+1 is inserted after n is visible. */
export const readOutboxPage = (
  db: SqlRunner,
  delta: OutboxDelta,
  rowsMax: number,
): Promise<readonly OutboxRow[]> =>
  db.execute<OutboxRow>(pageStatement, [
    delta.cursor.from,
    delta.cursor.to,
    delta.cursor.lastId,
    delta.finalId,
    rowsMax,
  ]);

const pendingStatement = {
  name: 'count-pending-outbox-rows',
  text: `
    select count(*) as count, min(created_at) as "oldestAt"
    from outbox join (${notIn('$1::pg_snapshot')}) missing using (id)
    where not (pg_visible_in_snapshot(outbox.tx_id, $2::pg_snapshot) and id <= $3)`,
};

/** How many committed rows the cursor has not passed yet, and since when the oldest waits. */
export const countPending = async (
  db: SqlRunner,
  cursor: OutboxCursor,
): Promise<{ readonly count: number; readonly oldestAt: Date | null }> => {
  const [row] = await db.execute<{ count: number; oldestAt: Date | null }>(pendingStatement, [
    cursor.from,
    cursor.to,
    cursor.lastId,
  ]);
  return row ?? { count: 0, oldestAt: null };
};
