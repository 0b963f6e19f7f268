import type { SqlRunner } from '../../postgres/database.ts';

const here = `
  select system_identifier, server_timeline() as timeline, 'outbox'::regclass::oid as outbox_oid
  from pg_control_system()`;

const seeStatement = {
  name: 'see-journal-timeline',
  text: `
    update journal_timeline known set seen_at = clock_timestamp()
    from (${here}) here
    where known.system_identifier = here.system_identifier and known.timeline = here.timeline
      and known.outbox_oid = here.outbox_oid
    returning known.id`,
};

// What was seen last on the server before is still there, so everything that was committed before it is as well: what is
// lost came later, and was published later still.
const noticeStatement = {
  name: 'notice-journal-timeline',
  text: `
    insert into journal_timeline (system_identifier, timeline, outbox_oid, search_from, next_search_at)
    select here.system_identifier, here.timeline, here.outbox_oid,
           before.seen_at - $1 * interval '1 millisecond', case when before.seen_at is not null then clock_timestamp() end
    from (${here}) here, (select max(seen_at) as seen_at from journal_timeline) before
    on conflict do nothing`,
};

/**
 * Notes that the journal is still where it was, or that it is on a server or a timeline where it has never been: then the
 * topics are to be searched. `marginMs` is how far the clocks of the servers and the relays may differ.
 */
export const seeTimeline = async (db: SqlRunner, { marginMs }: { marginMs: number }): Promise<void> => {
  const known = await db.execute(seeStatement);
  if (known.length === 0) await db.execute(noticeStatement, [marginMs]);
};

/** The topics are to be searched for events that the journal may have lost when it came to this timeline. */
export interface DueSearch {
  readonly id: number;
  readonly timeline: number;
  readonly from: Date;
  readonly searchesDone: number;
}

const dueStatement = {
  name: 'find-due-ghost-search',
  text: `
    select id, timeline, search_from as "from", searches_done as "searchesDone" from journal_timeline
    where next_search_at <= clock_timestamp() order by id limit 1`,
};

export const findDueSearch = async (db: SqlRunner): Promise<DueSearch | undefined> =>
  (await db.execute<DueSearch>(dueStatement))[0];

const doneStatement = {
  name: 'finish-ghost-search',
  text: `
    update journal_timeline
    set searches_done = searches_done + 1, records_unreadable = $2,
        next_search_at = noticed_at + $3::bigint * interval '1 millisecond'
    where id = $1 and searches_done = $4`,
};

/**
 * `nextAfterMs` counts from when the timeline was noticed; null when this was the last search. A search that two processes
 * have done, because one of them took too long to keep its lease, counts once: no later one may be left out for it.
 */
export const finishSearch = async (
  db: SqlRunner,
  { id, searchesDone }: DueSearch,
  { unreadable, nextAfterMs }: { unreadable: number; nextAfterMs: number | null },
): Promise<void> => {
  await db.execute(doneStatement, [id, unreadable, nextAfterMs, searchesDone]);
};
