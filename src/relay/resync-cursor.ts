import type { Database, SqlRunner } from '../postgres/database.ts';
import { startOfJournal } from './outbox-cursor.ts';
import { mainRelayLease } from './relay.ts';

const countStatement = {
  name: 'count-from-id',
  text: `select count(*) as rows, min(id) as "firstId", max(id) as "lastId" from outbox where id >= $1`,
};

/** What a resync from this id would publish again, and what it would pass over for good. */
export const planResync = async (
  db: SqlRunner,
  fromId: number,
): Promise<{ readonly rows: number; readonly firstId: number | null; readonly lastId: number | null }> => {
  const [row] = await db.execute<{ rows: number; firstId: number | null; lastId: number | null }>(
    countStatement,
    [fromId],
  );
  return row ?? { rows: 0, firstId: null, lastId: null };
};

// Taking the lease away first fences the relay that is at work: what it publishes now does not move the cursor any more.
const resyncStatement = {
  name: 'resync-cursor',
  text: `
    with fence as (
      insert into scheduler_lock as held (name, locked_by, locked_until) values ($3, 'resync', '-infinity')
      on conflict (name) do update set locked_by = 'resync', locked_until = '-infinity', token = held.token + 1
      returning token
    ), forgotten as (
      delete from outbox_wal_position
    )
    insert into outbox_cursor (from_snapshot, to_snapshot, last_id, lease_token, system_identifier)
    select $1::pg_snapshot, pg_current_snapshot(), $2 - 1, fence.token, system.system_identifier
    from fence, pg_control_system() system`,
};

/**
 * Publishes everything from an id on again, whatever the cursor said: after a restore from a dump, when its transaction
 * ids mean nothing any more. Consumers drop what they have had; what lies before the id is taken for published.
 */
export const resyncCursor = async (database: Database, fromId: number): Promise<void> => {
  await database.execute(resyncStatement, [startOfJournal.from, fromId, mainRelayLease]);
};
