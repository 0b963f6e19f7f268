import type { Database } from '../../postgres/database.ts';
import type { Lease } from '../lease.ts';
import {
  afterDelta,
  isBetweenDeltas,
  loadOutboxCursor,
  moveOutboxCursor,
  type OutboxCursor,
} from '../outbox-cursor.ts';
import type { FailedRow, OutboxRow } from '../outbox-source.ts';
import { storeFailedRows } from '../store-failed-rows.ts';

// As in the cursor's own delta: both ways of missing from a snapshot are lookups in the index on (tx_id, id).
const boundsStatement = {
  name: 'bound-rows-before-slot',
  text: `
    select min(id) as "firstId", max(id) as "finalId"
    from (
      select id, tx_id from outbox where tx_id >= pg_snapshot_xmax($1::pg_snapshot)
      union all
      select id, tx_id from outbox where tx_id = any (array(select pg_snapshot_xip($1::pg_snapshot)))
    ) delta
    where pg_visible_in_snapshot(tx_id, $2::pg_snapshot) and id > $3`,
};

const pageStatement = {
  name: 'read-rows-before-slot',
  text: `
    select id, event_id as "eventId", event_type as "eventType", source, aggregate_type as "aggregateType",
           aggregate_id as "aggregateId", aggregate_version as "aggregateVersion",
           partition_key as "partitionKey", request_id as "requestId",
           schema_fingerprint as "schemaFingerprint", payload, content_hash as "contentHash", traceparent,
           created_at as "createdAt"
    from outbox
    where id >= $3 and id <= $4
      and not pg_visible_in_snapshot(tx_id, $1::pg_snapshot)
      and pg_visible_in_snapshot(tx_id, $2::pg_snapshot)
    order by id
    limit $5`,
};

interface Delta {
  readonly cursor: OutboxCursor;
  readonly firstId: number;
  readonly finalId: number;
}

export interface PassRows {
  readonly last: OutboxRow;
  readonly failed: readonly FailedRow[];
  readonly lease: Lease;
}

/** The rows that were committed before the slot began: the cursor's, read to the very snapshot in which the slot begins. */
export const createRowsBeforeSlot = (db: Database, until: string) => {
  let delta: Delta | undefined;
  let passed = false;

  const bound = async (cursor: OutboxCursor): Promise<Delta | undefined> => {
    const [row] = await db.execute<{ firstId: number | null; finalId: number | null }>(boundsStatement, [
      cursor.from,
      cursor.to,
      cursor.lastId,
    ]);
    if (!row || row.firstId === null || row.finalId === null) return undefined;
    return { cursor, firstId: row.firstId, finalId: row.finalId };
  };

  /** First the rest of the delta that the cursor was in, then one last delta up to the slot. */
  const openDelta = async (): Promise<Delta | undefined> => {
    const cursor = await loadOutboxCursor(db);
    const rest = isBetweenDeltas(cursor) ? undefined : await bound(cursor);
    return rest ?? (await bound({ ...afterDelta(cursor), to: until }));
  };

  return {
    /** Nothing when the cursor has passed them all; that stays so. */
    nextRows: async (rowsMax: number): Promise<readonly OutboxRow[]> => {
      if (passed) return [];
      delta ??= await openDelta();
      if (!delta) {
        passed = true;
        return [];
      }
      const { cursor, firstId, finalId } = delta;
      return db.execute<OutboxRow>(pageStatement, [cursor.from, cursor.to, firstId, finalId, rowsMax]);
    },

    pass: async ({ last, failed, lease }: PassRows): Promise<boolean> => {
      if (!delta) throw new Error('Rows are passed that were not read');
      const next = { ...delta.cursor, lastId: last.id };
      const isMoved = await db.transaction(async (tx) => {
        if (!(await moveOutboxCursor(tx, next, lease))) return false;
        await storeFailedRows(tx, failed);
        return true;
      });
      if (!isMoved) return false;
      const isComplete = last.id >= delta.finalId;
      delta = isComplete ? undefined : { ...delta, cursor: next, firstId: last.id + 1 };
      return true;
    },
  };
};

export type RowsBeforeSlot = ReturnType<typeof createRowsBeforeSlot>;
