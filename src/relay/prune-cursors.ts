import type { Logger } from 'pino';
import type { Database, SqlRunner } from '../postgres/database.ts';
import { acquireLease, releaseLease } from './lease.ts';
import { startLoop } from './loop.ts';
import { createWakeSignal } from './wake-signal.ts';

export interface CursorRetention {
  /** How long cursor rows are kept. */
  readonly cursorRetentionMs: number;
  /** How long all of them are; of older ones the last of each minute stays. */
  readonly cursorDetailMs: number;
}

export const cursorPruneLease = 'outbox-cursor-prune';

/** One statement must not keep anybody waiting. */
const rowsMaxDefault = 5000;
const intervalMs = 60_000;

/** Rows are thinned when they get to this age; what was not thinned then, because no relay ran, goes with the others. */
const thinningMs = 6 * 60 * 60 * 1000;

// The newest row of a shard has no successor and stays however old it is: it is the relay's position.
const statement = {
  name: 'prune-outbox-cursors',
  text: `
    with superfluous as (
      select c.id
      from outbox_cursor c
      cross join lateral (
        select created_at from outbox_cursor later
        where later.shards = c.shards and later.shard = c.shard and later.id > c.id
        order by later.id limit 1) next
      where c.created_at < clock_timestamp() - $1 * interval '1 millisecond'
        or c.created_at < clock_timestamp() - $2 * interval '1 millisecond'
          and c.created_at >= clock_timestamp() - ($2 + ${thinningMs}) * interval '1 millisecond'
          and date_trunc('minute', next.created_at) = date_trunc('minute', c.created_at)
      limit $3
    )
    delete from outbox_cursor where id in (select id from superfluous)
    returning id`,
};

/** Removes cursor rows that are history and superfluous; answers with how many. */
export const pruneCursors = async (
  db: SqlRunner,
  { cursorRetentionMs, cursorDetailMs }: CursorRetention,
  rowsMax = rowsMaxDefault,
): Promise<number> => (await db.execute(statement, [cursorRetentionMs, cursorDetailMs, rowsMax])).length;

export interface CursorPruningOptions {
  readonly database: Database;
  readonly settings: CursorRetention;
  readonly holder: string;
  readonly log: Logger;
}

/** Every minute, in one process at a time: a busy relay writes a thousand rows a second. */
export const startCursorPruning = ({
  database,
  settings,
  holder,
  log,
}: CursorPruningOptions): { stop(): Promise<void> } => {
  const request = { name: cursorPruneLease, holder, holdMs: 3 * intervalMs };
  const { stop } = startLoop({
    wakeSignal: createWakeSignal(),
    log,
    step: async () => {
      if (!(await acquireLease(database, request))) return intervalMs;
      return (await pruneCursors(database, settings)) < rowsMaxDefault ? intervalMs : 0;
    },
    afterTrouble: () => intervalMs,
    finish: () => releaseLease(database, request),
    says: {
      trouble: 'Old cursor rows cannot be removed; it is tried again',
      recovered: 'Old cursor rows are removed again',
      unfinished: 'The lease for removing old cursor rows was not given back',
      level: 'warn',
    },
  });
  return { stop };
};
