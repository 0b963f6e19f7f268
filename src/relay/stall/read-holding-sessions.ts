import type { SqlRunner } from '../../postgres/database.ts';
import type { HoldingSession, StallReason } from './stall-reason.ts';

export type LongTransaction = Extract<StallReason, { kind: 'long-transaction' }>;

/** Of each effect the oldest few: more names do not help anybody. */
const sessionsMax = 5;
const queryLengthMax = 200;

const session = (alias: string): string => `
    ${alias}.pid, ${alias}.usename as user, ${alias}.application_name as application, ${alias}.state,
    ${alias}.xact_start as "transactionSince", ${alias}.query_start as "querySince",
    left(regexp_replace(${alias}.query, '\\s+', ' ', 'g'), ${queryLengthMax}) as query`;

// Whoever has inserted into the outbox keeps this lock until the end of its transaction.
const writersStatement = {
  name: 'find-long-writers',
  text: `
    select 'its-events-wait' as effect, ${session('activity')}
    from pg_stat_activity activity
    where activity.datname = current_database() and activity.pid <> pg_backend_pid()
      and activity.xact_start < clock_timestamp() - $1 * interval '1 millisecond'
      and exists (select from pg_locks lock
                  where lock.pid = activity.pid and lock.relation = 'outbox'::regclass
                    and lock.mode = 'RowExclusiveLock' and lock.granted)
    order by activity.xact_start limit ${sessionsMax}`,
};

// What the relay waits for: one of its tables, a row in one of them, or, when it begins to read the log, the end of
// everything that was open already. pg_blocking_pids says 0 for a prepared transaction.
const blockersStatement = {
  name: 'find-blockers-of-relay',
  text: `
    select case when bool_or(waiting.query ilike 'create_replication_slot%') then 'slot-waits'
                else 'relay-waits-for-lock' end as effect,
           ${session('blocker')}
    from pg_stat_activity waiting
    cross join lateral unnest(pg_blocking_pids(waiting.pid)) as blocking(pid)
    left join pg_stat_activity blocker on blocker.pid = blocking.pid
    where waiting.wait_event_type = 'Lock' and waiting.datname = current_database()
      and exists (select from pg_locks lock
                  where lock.pid = waiting.pid and not lock.granted
                    and lock.waitstart < clock_timestamp() - $1 * interval '1 millisecond')
      and (waiting.query ilike 'create_replication_slot%'
           or exists (select from pg_locks touched
                      where touched.pid = waiting.pid and touched.relation = any ($2::text[]::regclass[])))
    group by blocking.pid, blocker.pid, blocker.usename, blocker.application_name, blocker.state, blocker.xact_start,
             blocker.query_start, blocker.query
    order by blocker.xact_start limit ${sessionsMax}`,
};

/** Tables without which the relay cannot go on. */
const relayTables = [
  'outbox',
  'outbox_cursor',
  'outbox_failed',
  'outbox_dead_letter',
  'outbox_wal_position',
  'scheduler_lock',
  'relay_sharding',
  'relay_control',
  'avro_schema',
];

/** Transactions that have been open for longer than this and that events wait for. */
export const readHoldingSessions = async (
  db: SqlRunner,
  { longerThanMs }: { longerThanMs: number },
): Promise<readonly LongTransaction[]> => {
  type Row = HoldingSession & Pick<LongTransaction, 'effect'>;
  const [writers, blockers] = await Promise.all([
    db.execute<Row>(writersStatement, [longerThanMs]),
    db.execute<Row>(blockersStatement, [longerThanMs, relayTables]),
  ]);
  const blocking = new Set(blockers.map(({ pid }) => pid));
  return [...blockers, ...writers.filter(({ pid }) => !blocking.has(pid))].map(
    ({ effect, ...holding }): LongTransaction => ({ kind: 'long-transaction', effect, session: holding }),
  );
};
