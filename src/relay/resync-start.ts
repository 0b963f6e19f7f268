import type { SqlRunner } from '../postgres/database.ts';
import { findOldestUnsent } from './oldest-unsent.ts';

/** Events come to a partition nearly in the order of their times; one that was tried again comes later. */
const disorderMs = 3_600_000;

// The rows of that time are found first: looking for the least id among all of them would walk over the whole journal.
const statement = {
  name: 'find-resync-start',
  text: `
    with recent as materialized (select id from outbox where occurred_at >= to_timestamp($1::float8 / 1000))
    select coalesce((select min(id) from recent), (select coalesce(max(id), 0) + 1 from outbox)) as id`,
};

/** Where nobody can tell what is sent, nothing is. */
const nothingIsSent = new Date(0);

/**
 * From which id on events have to be published again, so that whoever has seen a topic up to that event time misses none.
 * Never behind what the relay has still to send: a resync takes what lies before its start for published.
 */
export const findResyncStart = async (db: SqlRunner, seenUntilMs: number): Promise<number> => {
  const unsent = await findOldestUnsent(db).catch(() => nothingIsSent);
  const fromMs = Math.min(seenUntilMs, unsent?.getTime() ?? seenUntilMs) - disorderMs;
  const [row] = await db.execute<{ id: number }>(statement, [fromMs]);
  return row?.id ?? 1;
};
