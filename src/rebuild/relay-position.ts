import type { Database, SqlRunner } from '../postgres/database.ts';
import { restoredUntilId } from '../relay/missing-rows.ts';

// Rows that a snapshot has and the relay has not passed. What it could not send counts as passed: it is held elsewhere.
const statement = {
  name: 'relay-has-passed',
  text: `
    select exists (
      select from outbox_position p
      cross join lateral (
        select from outbox o
        where o.tx_id >= pg_snapshot_xmin(p.from_snapshot) and pg_visible_in_snapshot(o.tx_id, $1::pg_snapshot)
          and o.id > ${restoredUntilId}
          and p.shard = outbox_shard(o.partition_key, p.shards)
          and not pg_visible_in_snapshot(o.tx_id, p.from_snapshot)
          and not (pg_visible_in_snapshot(o.tx_id, p.to_snapshot) and o.id <= p.last_id)
        limit 1) unsent
    ) or exists (select from outbox_position where restored_last_id is not null) as "isBehind",
    (select string_agg(format('%s %s %s %s', from_snapshot, to_snapshot, last_id, restored_last_id), ',' order by shard)
     from outbox_position)
      as position`,
};

export interface RelayProgress {
  /** Whether something that is visible in the snapshot has not been handed to Kafka. */
  readonly isBehind: boolean;
  /** Another text as soon as the relay has come further. */
  readonly position: string;
}

export const readRelayProgress = async (db: SqlRunner, snapshot: string): Promise<RelayProgress> => {
  const [row] = await db.execute<RelayProgress>(statement, [snapshot]);
  if (!row) throw new Error('The relay has no position');
  return row;
};

// Rows that came with a dump were handed over where it was made.
const passedStatement = {
  name: 'relay-has-passed-more-than',
  text: `
    select count(*) > $1 as more
    from (
      select from outbox o
      where o.event_type = any ($2::text[])
        and (o.id <= ${restoredUntilId} or exists (
          select from outbox_position p
          where p.shard = outbox_shard(o.partition_key, p.shards)
            and (pg_visible_in_snapshot(o.tx_id, p.from_snapshot)
                 or (pg_visible_in_snapshot(o.tx_id, p.to_snapshot) and o.id <= p.last_id))))
      limit $1 + 1
    ) passed`,
};

const noTimeLimitStatement = {
  name: 'no-time-limit-for-count',
  text: `select set_config('statement_timeout', '0', true)`,
};

/** Whether the relay has handed more events of these types to Kafka than that. Takes a second per ten million events or so. */
export const hasPassedMoreThan = (
  database: Database,
  { events, eventTypes }: { readonly events: number; readonly eventTypes: readonly string[] },
): Promise<boolean> =>
  database.transaction(async (tx) => {
    await tx.execute(noTimeLimitStatement);
    const [row] = await tx.execute<{ more: boolean }>(passedStatement, [events, eventTypes]);
    return row?.more ?? false;
  });

const heldStatement = {
  name: 'count-held-for-rebuild',
  text: 'select count(*) as held from outbox_failed where event_type = any ($1::text[])',
};

/** Events of these types that the journal has and Kafka has not: the live model cannot know them. */
export const countHeldBack = async (db: SqlRunner, eventTypes: readonly string[]): Promise<number> => {
  const [row] = await db.execute<{ held: number }>(heldStatement, [eventTypes]);
  return row?.held ?? 0;
};
