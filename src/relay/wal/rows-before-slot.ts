import type { Database } from '../../postgres/database.ts';
import { type Lease, LeaseMoved } from '../lease.ts';
import { findBounds, type OutboxDelta, resumeOutboxDelta } from '../open-outbox-delta.ts';
import {
  afterDelta,
  loadOutboxCursor,
  moveOutboxCursor,
  passedUpTo,
  type StoredCursor,
} from '../outbox-cursor.ts';
import type { FailedRow, OutboxRow } from '../outbox-source.ts';
import { readOutboxPage } from '../read-outbox-page.ts';
import { storeFailedRows } from '../store-failed-rows.ts';

export interface PassRows {
  readonly last: OutboxRow;
  readonly failed: readonly FailedRow[];
  readonly lease: Lease;
}

const slotBeginsStatement = {
  name: 'slot-begins-here',
  text: 'select exists (select from outbox_wal_position where cursor_until::text = $1) as found',
};

/** The rows that were committed before the slot began: the cursor's, read to the very snapshot in which the slot begins. */
export const createRowsBeforeSlot = (db: Database, until: string) => {
  /** What is left, and the newest row that is stored of it. */
  let rest: (OutboxDelta & Pick<StoredCursor, 'row'>) | undefined;
  let isPassed = false;

  /** One last delta, up to the slot. As every delta it is stored before anything of it is published. */
  const openLast = async ({ cursor, row }: StoredCursor, lease: Lease): Promise<typeof rest> => {
    const last = { from: cursor.from, to: until, lastId: 0 };
    const bounds = await findBounds(db, last);
    if (bounds.finalId === 0) return undefined;
    const delta = { cursor: { ...last, lastId: bounds.firstId - 1 }, bounds };
    const opened = await db.transaction(async (tx) => {
      // The snapshot means nothing on a server that does not have the position it was stored with.
      const [begins] = await tx.execute<{ found: boolean }>(slotBeginsStatement, [until]);
      return begins?.found ? moveOutboxCursor(tx, delta, { row, lease }) : undefined;
    });
    if (!opened) throw new LeaseMoved('The cursor has been moved by somebody else');
    return { ...delta, row: opened };
  };

  /** First the rest of what the cursor was in, then the last delta. */
  const openRest = async (lease: Lease): Promise<typeof rest> => {
    const stored = await loadOutboxCursor(db);
    const begun = await resumeOutboxDelta(db, stored);
    return begun ? { ...begun, row: stored.row } : openLast(stored, lease);
  };

  return {
    /** Nothing when the cursor has passed them all; that stays so. */
    nextRows: async (rowsMax: number, lease: Lease): Promise<readonly OutboxRow[]> => {
      while (!isPassed) {
        rest ??= await openRest(lease);
        isPassed = rest === undefined;
        if (!rest) break;
        const rows = await readOutboxPage(db, rest, { rowsMax, row: rest.row });
        if (rows.length > 0) return rows;
        const closed = { cursor: afterDelta(rest.cursor) };
        if (!(await moveOutboxCursor(db, closed, { row: rest.row, lease })))
          throw new LeaseMoved('The cursor has been moved by somebody else');
        rest = undefined;
      }
      return [];
    },

    pass: async ({ last, failed, lease }: PassRows): Promise<boolean> => {
      if (!rest) throw new Error('Rows are passed that were not read');
      const { cursor, bounds, row } = rest;
      const isComplete = last.id >= bounds.finalId;
      const next = isComplete
        ? { cursor: afterDelta(cursor) }
        : { cursor: passedUpTo(cursor, last.id), bounds };
      const moved = await db.transaction(async (tx) => {
        const stored = await moveOutboxCursor(tx, next, { row, lease });
        if (stored) await storeFailedRows(tx, failed);
        return stored;
      });
      if (!moved) return false;
      rest = isComplete ? undefined : { cursor: next.cursor, bounds, row: moved };
      return true;
    },
  };
};

export type RowsBeforeSlot = ReturnType<typeof createRowsBeforeSlot>;
