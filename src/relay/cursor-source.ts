import type { Database } from '../postgres/database.ts';
import type { Lease } from './lease.ts';
import {
  afterDelta,
  isBetweenDeltas,
  loadOutboxCursor,
  moveOutboxCursor,
  type OutboxCursor,
} from './outbox-cursor.ts';
import type { FailedRow, OutboxPage, OutboxSource } from './outbox-source.ts';
import { type OutboxDelta, openOutboxDelta, readOutboxPage, resumeOutboxDelta } from './read-outbox-delta.ts';
import { type Shard, singleShard } from './shard.ts';
import { storeFailedRows } from './store-failed-rows.ts';

interface CursorPage extends OutboxPage {
  /** What is left of the delta, these rows included. */
  readonly delta: OutboxDelta;
}

/** Reads the outbox by snapshots. What it remembers can be forgotten at any time: the database has it. */
export const createCursorSource = (database: Database, shard: Shard = singleShard): OutboxSource => {
  let cursor: OutboxCursor | undefined;
  let delta: OutboxDelta | undefined;
  /** Given and not settled yet, in their order. */
  let pages: CursorPage[] = [];

  const forget = (): void => {
    cursor = undefined;
    delta = undefined;
    pages = [];
  };

  const currentDelta = async (): Promise<OutboxDelta | undefined> => {
    if (delta) return delta;
    cursor ??= await loadOutboxCursor(database, shard);
    delta = isBetweenDeltas(cursor)
      ? await openOutboxDelta(database, cursor)
      : await resumeOutboxDelta(database, cursor);
    return delta;
  };

  const readPage = async (open: OutboxDelta, rowsMax: number): Promise<CursorPage> => ({
    rows: await readOutboxPage(database, open, rowsMax, shard),
    delta: open,
  });

  const move = (next: OutboxCursor, failed: readonly FailedRow[], lease: Lease): Promise<boolean> =>
    failed.length === 0
      ? moveOutboxCursor(database, next, lease, shard)
      : database
          .transaction(async (tx) => {
            await storeFailedRows(tx, failed);
            if (await moveOutboxCursor(tx, next, lease, shard)) return true;
            throw new LeaseLost();
          })
          .catch(rejectLostLease);

  return {
    nextPage: async (rowsMax) => {
      const [given] = pages;
      if (given) return given;
      const open = await currentDelta();
      if (!open) return undefined;
      const page = await readPage(open, rowsMax);
      pages = [page];
      return page;
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
      if (!page || settled !== page)
        throw new Error('Pages are settled in the order in which they were given');
      const rest = restAfter(page, count);
      const next = rest ? rest.cursor : afterDelta(page.delta.cursor);
      cursor = next;
      delta = rest;
      pages = count === page.rows.length ? later : [];
      try {
        if (await move(next, failed, lease)) return true;
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
  const { cursor, finalId } = delta;
  const lastId = count === rows.length ? (rows.at(-1)?.id ?? finalId) : (rows[count - 1]?.id ?? 0);
  if (count === rows.length && lastId >= finalId) return undefined;
  return { ...delta, cursor: { ...cursor, lastId: Math.max(lastId, cursor.lastId) } };
};

/** Rolls back what was stored together with the cursor. */
class LeaseLost extends Error {}

const rejectLostLease = (error: unknown): false => {
  if (error instanceof LeaseLost) return false;
  throw error;
};
