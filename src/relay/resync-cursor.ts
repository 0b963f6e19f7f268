import { OperatorError } from '../operator-error.ts';
import type { SqlRunner } from '../postgres/database.ts';
import { codeOf } from '../postgres/sql-error.ts';
import { fenceShards, lockSharding } from './fence-shards.ts';

/** How long writers may take to end; others that want to write wait behind whoever waits. */
const writersWaitMs = 5000;

const countStatement = {
  name: 'count-from-id',
  text: `select count(*) as rows, min(id) as "firstId", max(id) as "lastId" from outbox where id >= $1`,
};

const forgottenStatement = {
  name: 'find-forgotten-events',
  text: `
    select count(*) as rows, max(id) as "lastId", min(occurred_at) as "oldestAt"
    from outbox where id >= $1 and occurred_at < now() - $2 * interval '1 millisecond'`,
};

/** What a resync from an id publishes again; what lies before is passed over for good. */
export interface ResyncPlan {
  readonly rows: number;
  readonly firstId: number | null;
  readonly lastId: number | null;
}

export const planResync = async (db: SqlRunner, fromId: number): Promise<ResyncPlan> => {
  const [row] = await db.execute<ResyncPlan>(countStatement, [fromId]);
  return row ?? { rows: 0, firstId: null, lastId: null };
};

const dayMs = 24 * 60 * 60 * 1000;

/**
 * Projections recognise an event for a limited time. One that is older would be applied a second time, so it is not published
 * again. A day is left for the way: an event that is still known now must be so when a projection that lags behind reads it.
 */
export const refuseForgottenEvents = async (
  db: SqlRunner,
  { fromId, handledRetentionMs }: { readonly fromId: number; readonly handledRetentionMs: number },
): Promise<void> => {
  const ageMaxMs = Math.max(0, handledRetentionMs - dayMs);
  const [found] = await db.execute<{ rows: number; lastId: number | null; oldestAt: Date | null }>(
    forgottenStatement,
    [fromId, ageMaxMs],
  );
  if (!found?.oldestAt || found.lastId === null) return;
  const ageMs = Date.now() - found.oldestAt.getTime();
  throw new OperatorError(
    `${found.rows} of the events from id ${fromId} on are too old to be published again: the oldest is ${inDays(ageMs)} old, and projections recognise events up to ${inDays(ageMaxMs)} old (STREAMS_HANDLED_RETENTION_MS less a day). Older ones would be counted twice; nothing was changed`,
    {
      remedy: `Use --from-id ${found.lastId + 1} or a higher id; what a read model lacks of the events before, millrace rebuild <projection> brings back from the journal`,
    },
  );
};

const inDays = (timeMs: number): string => `${Math.floor((timeMs / dayMs) * 10) / 10} days`;

const forgetStatement = { name: 'forget-log-positions', text: 'delete from outbox_wal_position' };

const patienceStatement = { name: 'wait-for-writers', text: `set local lock_timeout = '${writersWaitMs}ms'` };
// Waits for whoever has written and not committed yet, and lets nobody write meanwhile: from now on every row is committed.
const lockStatement = { name: 'lock-outbox', text: 'lock table outbox in share row exclusive mode' };

const originStatement = {
  name: 'set-journal-origin',
  text: `
    update journal_origin
    set restored_until_id = greatest(restored_until_id, (select coalesce(max(id), 0) from outbox)),
        restored_at = clock_timestamp()`,
};

// Rows that are there go by id: after a restore their transaction ids are those of another server. What is committed later
// goes by snapshots, from this one on. No lease is behind it, which the token 0 says.
const resyncStatement = {
  name: 'resync-cursor',
  text: `
    insert into outbox_cursor (from_snapshot, to_snapshot, last_id, restored_last_id, lease_token, system_identifier,
                               timeline, shards, shard)
    select pg_current_snapshot(), pg_current_snapshot(), 0, $1::bigint - 1, 0, system_identifier, server_timeline(), $2,
           shard
    from pg_control_system(), generate_series(1, $2::integer) as shard`,
};

const lockNotAvailable = '55P03';

const lockOutbox = async (tx: SqlRunner): Promise<void> => {
  await tx.execute(patienceStatement);
  try {
    await tx.execute(lockStatement);
  } catch (error) {
    if (codeOf(error) !== lockNotAvailable) throw error;
    throw new OperatorError(
      'A transaction that writes events has been open for too long; nothing has changed',
      {
        remedy:
          'End it (select pid, xact_start, query from pg_stat_activity order by xact_start) and run the command again',
        cause: error,
      },
    );
  }
};

/**
 * Publishes everything from an id on again, whatever the cursor said: after a restore from a dump, when its transaction
 * ids mean nothing any more. To be run in a transaction. Consumers drop what they have had; what lies before the id is
 * taken for published.
 */
export const resyncCursor = async (tx: SqlRunner, fromId: number): Promise<void> => {
  // First of all: what the relays at work publish now does not move their cursors any more.
  const shards = await lockSharding(tx);
  await fenceShards(tx, { shards, by: 'resync' });
  await tx.execute(forgetStatement);
  await lockOutbox(tx);
  await tx.execute(originStatement);
  await tx.execute(resyncStatement, [fromId, shards]);
};
