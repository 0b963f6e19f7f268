import type { Database } from '../postgres/database.ts';
import { type Lease, LeaseMoved } from './lease.ts';
import { type OutboxDelta, openOutboxDelta, resumeOutboxDelta } from './open-outbox-delta.ts';
import {
  afterDelta,
  type CursorRow,
  lastIdOf,
  loadOutboxCursor,
  type MoveFrom,
  moveOutboxCursor,
  passedUpTo,
  type StoredCursor,
} from './outbox-cursor.ts';
import type { FailedRow, OutboxPage, OutboxSource } from './outbox-source.ts';
import { DeltaGone, readOutboxPage } from './read-outbox-page.ts';
import { type Shard, singleShard } from './shard.ts';
import { storeFailedRows } from './store-failed-rows.ts';

interface CursorPage extends OutboxPage {
  /** What is left of the delta, these rows included. */
  readonly delta: OutboxDelta;
}

/** Reads the outbox by snapshots. What it remembers can be forgotten at any time: the database has it. */
export const createCursorSource = (database: Database, shard: Shard = singleShard): OutboxSource => {
  /** Where the cursor is once everything that is being settled is stored, and the newest row that is known to be. */
  let stored: StoredCursor | undefined;
  let delta: OutboxDelta | undefined;
  /** Given and not settled yet, in their order. */
  let pages: CursorPage[] = [];
  /** Ends when what is being settled has its answer, whatever that is. */
  let settling: Promise<unknown> = Promise.resolve();

  const forget = (): void => {
    stored = undefined;
    delta = undefined;
    pages = [];
  };

  const currentDelta = async (lease: Lease): Promise<OutboxDelta | undefined> => {
    if (delta) return delta;
    // A delta is opened on top of the row that is just being stored.
    await settling;
    stored ??= await loadOutboxCursor(database, shard);
    delta = await resumeOutboxDelta(database, stored);
    if (delta) return delta;
    const { cursor, row } = stored;
    const opened = await openOutboxDelta(database, cursor, { row, lease, shard });
    if (opened.kind === 'nothing-new') return undefined;
    if (opened.kind === 'refused') throw new DeltaGone('The cursor has been moved by somebody else');
    delta = opened.delta;
    stored = { ...opened.delta, row: opened.row };
    return delta;
  };

  const readPage = async (open: OutboxDelta, rowsMax: number): Promise<CursorPage> => ({
    rows: await readOutboxPage(database, open, { rowsMax, shard, row: stored?.row ?? null }),
    delta: open,
  });

  const firstPage = async (rowsMax: number, lease: Lease): Promise<CursorPage | undefined> => {
    const open = await currentDelta(lease);
    if (!open) return undefined;
    const page = await readPage(open, rowsMax);
    pages = [page];
    return page;
  };

  const move = (next: Omit<StoredCursor, 'row'>, failed: readonly FailedRow[], from: MoveFrom) =>
    failed.length === 0
      ? moveOutboxCursor(database, next, from)
      : database
          .transaction(async (tx) => {
            await storeFailedRows(tx, failed);
            const moved = await moveOutboxCursor(tx, next, from);
            if (moved) return moved;
            throw new LeaseMoved('The cursor has been moved by somebody else');
          })
          .catch(undefinedWhenMoved);

  /** Unless all of it was forgotten, and perhaps loaded again, while the row was stored. */
  const noteRow = (moved: CursorRow, before: CursorRow | null): void => {
    if (stored && stored.row === before) stored = { ...stored, row: moved };
  };

  return {
    nextPage: async (rowsMax, lease) => {
      const [given] = pages;
      if (given) return given;
      try {
        return await firstPage(rowsMax, lease);
      } catch (error) {
        if (!(error instanceof DeltaGone)) throw error;
        // What is stored counts, and it is to be read by whoever has the lease by now.
        forget();
        throw new LeaseMoved(error.message, { cause: error });
      }
    },

    pageAfter: async (page, rowsMax) => {
      const last = pages.at(-1);
      if (!last || last !== page) return undefined;
      const rest = restAfter(last, last.rows.length);
      if (!rest) return undefined;
      const next = await readPage(rest, rowsMax);
      // All of it may have been forgotten meanwhile.
      if (pages.at(-1) !== last) return undefined;
      pages.push(next);
      return next;
    },

    settle: async (settled, count, failed, lease) => {
      const [page, ...later] = pages;
      if (!page || settled !== page || !stored)
        throw new Error('Pages are settled in the order in which they were given');
      const rest = restAfter(page, count);
      const next = rest ?? { cursor: afterDelta(page.delta.cursor) };
      const { row } = stored;
      stored = { ...next, row };
      delta = rest;
      pages = count === page.rows.length ? later : [];
      const moving = move(next, failed, { row, lease, shard });
      settling = moving.catch(() => undefined);
      try {
        const moved = await moving;
        if (moved) {
          noteRow(moved, row);
          return true;
        }
      } catch (error) {
        forget();
        throw error;
      }
      forget();
      return false;
    },

    forget,
    close: async () => forget(),
  };
};

/** What is left of the delta behind so many rows of a page; undefined when that is nothing. */
const restAfter = ({ rows, delta }: CursorPage, count: number): OutboxDelta | undefined => {
  const { cursor, bounds } = delta;
  const lastId = count === rows.length ? (rows.at(-1)?.id ?? bounds.finalId) : (rows[count - 1]?.id ?? 0);
  if (count === rows.length && lastId >= bounds.finalId) return undefined;
  return { bounds, cursor: passedUpTo(cursor, Math.max(lastId, lastIdOf(cursor))) };
};

/** What was stored together with the cursor is rolled back. */
const undefinedWhenMoved = (error: unknown): undefined => {
  if (error instanceof LeaseMoved) return undefined;
  throw error;
};
