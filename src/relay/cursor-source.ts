import type { Database } from '../postgres/database.ts';
import {
  afterDelta,
  isBetweenDeltas,
  loadOutboxCursor,
  moveOutboxCursor,
  type OutboxCursor,
} from './outbox-cursor.ts';
import type { OutboxPage, OutboxSource } from './outbox-source.ts';
import { type OutboxDelta, openOutboxDelta, readOutboxPage, resumeOutboxDelta } from './read-outbox-delta.ts';
import { type Shard, singleShard } from './shard.ts';
import { storeFailedRows } from './store-failed-rows.ts';

interface CursorPage extends OutboxPage {
  readonly delta: OutboxDelta;
}

/** Reads the outbox by snapshots. What it remembers can be forgotten at any time: the database has it. */
export const createCursorSource = (database: Database, shard: Shard = singleShard): OutboxSource => {
  let cursor: OutboxCursor | undefined;
  let delta: OutboxDelta | undefined;
  let page: CursorPage | undefined;

  const forget = (): void => {
    cursor = undefined;
    delta = undefined;
    page = undefined;
  };

  const currentDelta = async (): Promise<OutboxDelta | undefined> => {
    if (delta) return delta;
    cursor ??= await loadOutboxCursor(database, shard);
    delta = isBetweenDeltas(cursor)
      ? await openOutboxDelta(database, cursor)
      : await resumeOutboxDelta(database, cursor);
    return delta;
  };

  return {
    nextPage: async (rowsMax) => {
      if (page) return page;
      const open = await currentDelta();
      if (!open) return undefined;
      const rows = await readOutboxPage(database, open, rowsMax, shard);
      page = { rows, delta: open };
      return page;
    },

    settle: async (settled, count, failed, lease) => {
      if (settled !== page) throw new Error('Only the page that was given last can be settled');
      const { delta: open, rows } = page;
      const lastId = count === rows.length ? (rows.at(-1)?.id ?? open.finalId) : (rows[count - 1]?.id ?? 0);
      const isComplete = count === rows.length && lastId >= open.finalId;
      const reached = { ...open.cursor, lastId: Math.max(lastId, open.cursor.lastId) };
      const next = isComplete ? afterDelta(reached) : reached;
      const moved = await database
        .transaction(async (tx) => {
          await storeFailedRows(tx, failed);
          if (await moveOutboxCursor(tx, next, lease, shard)) return true;
          throw new LeaseLost();
        })
        .catch(rejectLostLease);
      if (!moved) {
        forget();
        return false;
      }
      cursor = next;
      delta = isComplete ? undefined : { ...open, cursor: reached };
      page = undefined;
      return true;
    },

    forget,
    close: async () => forget(),
  };
};

/** Rolls back what was stored together with the cursor. */
class LeaseLost extends Error {}

const rejectLostLease = (error: unknown): false => {
  if (error instanceof LeaseLost) return false;
  throw error;
};
