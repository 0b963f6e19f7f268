import { writeAudit } from '../operator-audit/write-audit.ts';
import type { Database } from '../postgres/database.ts';
import { type AggregateRef, type EventRef, refValues } from './event-selection.ts';

/** Whose events go out again: one aggregate, the aggregate of one event, or everything. */
export type RetrySelection = { readonly aggregate: AggregateRef } | { readonly event: EventRef } | 'all';

export interface RetryReport {
  readonly dryRun: boolean;
  /** Events that are due now, together with those that wait behind them. */
  readonly events: number;
  readonly aggregates: number;
  /** How many of them were dead. */
  readonly revived: number;
}

/** Ids an audit entry lists; the count is told in any case. */
const auditedIdsMax = 1000;

interface PickedRow {
  readonly id: number;
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly dead: boolean;
}

// Whole aggregates, always: put back alone, an event would overtake the one before it.
const pickStatement = {
  name: 'pick-rows-to-retry',
  text: `
    select outbox_id as id, aggregate_type as "aggregateType", aggregate_id as "aggregateId",
           dead_at is not null as dead
    from outbox_failed
    where $5
       or (aggregate_type = $1 and aggregate_id = $2)
       or (aggregate_type, aggregate_id) in (
            select aggregate_type, aggregate_id from outbox_failed where outbox_id = $3 or event_id = $4)
    order by outbox_id
    for update`,
};

// A letter whose failed row is gone, as when the process ended between the two. The journal has the event itself.
const pickLettersStatement = {
  name: 'pick-lone-letters-to-retry',
  text: `
    select o.id, aggregate_type as "aggregateType", aggregate_id as "aggregateId", true as dead
    from outbox_dead_letter join outbox o on o.id = original_id
    where ($5 or (aggregate_type = $1 and aggregate_id = $2) or original_id = $3 or event_id = $4)
      and not exists (select from outbox_failed where outbox_id = original_id)
    order by o.id`,
};

const holdAgainStatement = {
  name: 'hold-events-again',
  text: `
    insert into outbox_failed (outbox_id, event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version,
                               partition_key, request_id, schema_fingerprint, payload, content_hash, traceparent,
                               created_at, last_error)
    select o.id, o.event_id, o.event_type, o.source, o.aggregate_type, o.aggregate_id, o.aggregate_version,
           o.partition_key, o.request_id, o.schema_fingerprint, o.payload, o.content_hash, o.traceparent, o.created_at,
           letter.reason
    from outbox o join outbox_dead_letter letter on letter.original_id = o.id
    where o.id = any ($1::bigint[])
    on conflict (outbox_id) do nothing`,
};

// One that ended processes is still tried alone.
const putBackStatement = {
  name: 'put-failed-rows-back',
  text: `
    update outbox_failed
    set retry_count = 0, unanswered_count = least(unanswered_count, 1), next_retry_at = clock_timestamp(),
        dead_at = null
    where outbox_id = any ($1::bigint[])`,
};

const forgetLettersStatement = {
  name: 'forget-dead-letters',
  text: 'delete from outbox_dead_letter where original_id = any ($1::bigint[])',
};

/** The parameters of both statements that pick. */
const valuesOf = (selection: RetrySelection): readonly unknown[] => {
  if (selection === 'all') return [null, null, null, null, true];
  if ('event' in selection) return [null, null, ...refValues(selection.event), false];
  const { aggregateType, aggregateId } = selection.aggregate;
  return [aggregateType, aggregateId, null, null, false];
};

/** Failed and dead events become due now as if they had never been tried, each aggregate as one sequence. */
export const retryEvents = (
  database: Database,
  selection: RetrySelection,
  { who, dryRun }: { who: string; dryRun: boolean },
): Promise<RetryReport> =>
  database.transaction(async (tx) => {
    const held = await tx.execute<PickedRow>(pickStatement, valuesOf(selection));
    const letters = await tx.execute<PickedRow>(pickLettersStatement, valuesOf(selection));
    const rows = [...held, ...letters];
    const report = {
      dryRun,
      events: rows.length,
      aggregates: new Set(rows.map((row) => `${row.aggregateType}/${row.aggregateId}`)).size,
      revived: rows.filter(({ dead }) => dead).length,
    };
    if (dryRun || rows.length === 0) return report;
    const ids = rows.map(({ id }) => id);
    await tx.execute(holdAgainStatement, [letters.map(({ id }) => id)]);
    await tx.execute(putBackStatement, [ids]);
    await tx.execute(forgetLettersStatement, [ids]);
    await writeAudit(tx, {
      who,
      action: 'outbox.retry',
      target: { selection, events: ids.length, outboxIds: ids.slice(0, auditedIdsMax) },
    });
    return report;
  });
