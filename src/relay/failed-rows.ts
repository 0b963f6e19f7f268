import type { SqlRunner } from '../postgres/database.ts';
import type { Lease } from './lease.ts';
import type { OutboxRow } from './outbox-source.ts';

/** A row in `outbox_failed`: the event, and what has been tried. */
export interface StoredFailedRow extends OutboxRow {
  readonly retryCount: number;
  /** Tries that began and never came to an end, one after the other; with the claim, the one that begins. */
  readonly unansweredCount: number;
}

const columns = `
  outbox_id as id, event_id as "eventId", event_type as "eventType", source, aggregate_type as "aggregateType",
  aggregate_id as "aggregateId", aggregate_version as "aggregateVersion", partition_key as "partitionKey",
  request_id as "requestId", schema_fingerprint as "schemaFingerprint", payload, content_hash as "contentHash",
  traceparent, created_at as "createdAt", retry_count as "retryCount",
  unanswered_count as "unansweredCount"`;

// Only the first row of an aggregate can be due: the others wait behind it. The attempt is counted here, before it is
// made, and the next one is put off: a row that ends the process on every try is found out like any other. One whose last
// try never came to an end is claimed alone, so that it takes no other down with it, and only when nothing else is due.
const claimStatement = {
  name: 'claim-due-rows',
  text: `
    with lease as (select from scheduler_lock where name = $4 and token = $5 for share),
    due as (
      select head.outbox_id, head.unanswered_count = 0 as is_harmless,
             row_number() over (order by head.unanswered_count > 0, head.next_retry_at) as place
      from outbox_failed head
      where head.dead_at is null and head.next_retry_at <= coalesce($6::timestamptz, clock_timestamp())
        and not exists (select from outbox_failed earlier
                        where earlier.aggregate_type = head.aggregate_type and earlier.aggregate_id = head.aggregate_id
                          and earlier.outbox_id < head.outbox_id)
        and exists (select from lease)
      order by place
      limit $1
    )
    update outbox_failed
    set retry_count = retry_count + 1,
        unanswered_count = unanswered_count + 1,
        claim_token = $5,
        next_retry_at = coalesce($6::timestamptz, clock_timestamp())
                      + least($3, $2 * power(2, least(retry_count, 40))) * interval '1 millisecond'
    where outbox_id in (select outbox_id from due where is_harmless or place = 1)
    returning ${columns}`,
};

/** The first rows of aggregates whose next try is due, each counted as tried. */
export const claimDueRows = (
  db: SqlRunner,
  options: {
    rowsMax: number;
    backoffBaseMs: number;
    backoffMaxMs: number;
    lease: Lease;
    /** The server's own time unless told: the clocks of several relays may differ. */
    now?: Date;
  },
): Promise<readonly StoredFailedRow[]> => {
  const { rowsMax, backoffBaseMs, backoffMaxMs, lease, now = null } = options;
  return db.execute(claimStatement, [rowsMax, backoffBaseMs, backoffMaxMs, lease.name, lease.token, now]);
};

const sequencesStatement = {
  name: 'load-sequences',
  text: `
    select waiting.*
    from unnest($1::text[], $2::text[]) as head(aggregate_type, aggregate_id)
    cross join lateral (
      select ${columns}
      from outbox_failed f
      where f.aggregate_type = head.aggregate_type and f.aggregate_id = head.aggregate_id
      order by f.outbox_id
      limit $3
    ) waiting
    order by waiting.id`,
};

/**
 * What waits in these aggregates, in the order it must be published. Each gets the same share of the rows, its first one in
 * any case: one with a long line behind it does not take the place of others.
 */
export const loadSequences = (
  db: SqlRunner,
  heads: readonly OutboxRow[],
  rowsMax: number,
): Promise<readonly StoredFailedRow[]> =>
  db.execute(sequencesStatement, [
    heads.map((row) => row.aggregateType),
    heads.map((row) => row.aggregateId),
    Math.max(1, Math.floor(rowsMax / heads.length)),
  ]);

const dropStatement = {
  name: 'drop-failed-rows',
  text: `
    with letters as (delete from outbox_dead_letter where original_id = any ($1::bigint[]))
    delete from outbox_failed where outbox_id = any ($1::bigint[])`,
};

/** They are in Kafka now. */
export const dropFailedRows = async (db: SqlRunner, ids: readonly number[]): Promise<void> => {
  if (ids.length > 0) await db.execute(dropStatement, [ids]);
};

const noteStatement = {
  name: 'note-failures',
  text: `
    update outbox_failed failed
    set last_error = noted.error, failed_at = clock_timestamp(), claim_token = null,
        unanswered_count = case when noted.dead then unanswered_count else 0 end,
        dead_at = case when noted.dead then clock_timestamp() end
    from unnest($1::bigint[], $2::text[], $3::boolean[]) as noted(outbox_id, error, dead)
    where failed.outbox_id = noted.outbox_id`,
};

export const noteFailures = async (
  db: SqlRunner,
  failures: readonly { readonly id: number; readonly error: string; readonly dead: boolean }[],
): Promise<void> => {
  if (failures.length === 0) return;
  await db.execute(noteStatement, [
    failures.map(({ id }) => id),
    failures.map(({ error }) => error),
    failures.map(({ dead }) => dead),
  ]);
};

const giveBackStatement = {
  name: 'give-back-claims',
  text: `
    update outbox_failed
    set retry_count = greatest(0, retry_count - 1), unanswered_count = greatest(0, unanswered_count - 1),
        claim_token = null, next_retry_at = clock_timestamp()
    where outbox_id = any ($1::bigint[])`,
};

/** That was no try of these rows: the brokers were in trouble, or it did not come to it. */
export const giveBackClaims = async (db: SqlRunner, ids: readonly number[]): Promise<void> => {
  if (ids.length > 0) await db.execute(giveBackStatement, [ids]);
};
