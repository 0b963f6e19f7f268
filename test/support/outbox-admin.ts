import { appendEvents } from '../../src/journal/append-events.ts';
import type { Database } from '../../src/postgres/database.ts';
import type { OutboxRow } from '../../src/relay/outbox-source.ts';
import { storeFailedRows } from '../../src/relay/store-failed-rows.ts';
import { viewOf } from './journal.ts';

const rowsStatement = {
  name: 'spec-outbox-rows',
  text: `
    select id, event_id as "eventId", event_type as "eventType", source, aggregate_type as "aggregateType",
           aggregate_id as "aggregateId", aggregate_version as "aggregateVersion", partition_key as "partitionKey",
           request_id as "requestId", schema_fingerprint as "schemaFingerprint", payload,
           content_hash as "contentHash", traceparent, created_at as "createdAt"
    from outbox where aggregate_id = $1 and aggregate_version > $2 order by id`,
};

/** Events of one aggregate in the journal: the rows as the relay reads them, first one first. */
export const appendViews = async (
  db: Database,
  aggregateId: string,
  { count, after = 0 }: { count: number; after?: number },
): Promise<readonly OutboxRow[]> => {
  await appendEvents(
    db,
    Array.from({ length: count }, (_, index) => viewOf(aggregateId, after + index + 1)),
  );
  return db.execute<OutboxRow>(rowsStatement, [aggregateId, after]);
};

/** What the relay would have left behind if it had not got the first of these rows through. */
export const park = (db: Database, rows: readonly OutboxRow[], how: { dead: boolean }): Promise<void> =>
  storeFailedRows(
    db,
    rows.map((row, index) =>
      index === 0
        ? { row, error: 'message too large', tried: true, dead: how.dead }
        : { row, error: 'An earlier event of this aggregate has not arrived', tried: false },
    ),
  );

const passStatement = {
  name: 'spec-pass-everything',
  text: `
    insert into outbox_cursor (from_snapshot, to_snapshot, last_id, lease_token, system_identifier)
    select pg_current_snapshot(), pg_current_snapshot(), 0, 1, system_identifier from pg_control_system()`,
};

/** Moves the cursor past everything that is committed, as the relay does once all of it is settled. */
export const passEverything = async (db: Database): Promise<void> => {
  await db.execute(passStatement);
};

export interface AuditRow {
  readonly who: string;
  readonly action: string;
  readonly target: Readonly<Record<string, unknown>>;
}

export const auditRows = (db: Database): Promise<readonly AuditRow[]> =>
  db.execute({ name: 'spec-audit', text: 'select who, action, target from operator_audit order by id' });

/** Everything an operator can change, to see that nothing did. */
export const changeableState = (db: Database): Promise<readonly unknown[]> =>
  db.execute({
    name: 'spec-changeable',
    text: `
      select (select json_agg(f order by outbox_id) from outbox_failed f) as failed,
             (select json_agg(d order by id) from outbox_dead_letter d) as letters,
             (select json_agg(dropped order by outbox_id) from outbox_dropped dropped) as dropped,
             (select json_agg(a order by id) from operator_audit a) as audit`,
  });

/** For the next test: nothing held, nothing audited; the journal stays. */
export const clearHeldEvents = async (db: Database): Promise<void> => {
  for (const table of [
    'outbox_failed',
    'outbox_dead_letter',
    'outbox_dropped',
    'operator_audit',
    'scheduler_lock',
  ]) {
    await db.execute({ name: `spec-clear-${table}`, text: `delete from ${table}` });
  }
};
