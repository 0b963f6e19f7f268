import { OperatorError } from '../operator-error.ts';
import type { SqlRunner } from '../postgres/database.ts';
import { ForeignCursor, loadOutboxCursor } from '../relay/outbox-cursor.ts';
import type { EventFilter } from './event-selection.ts';
import type { OutboxEvent } from './outbox-event.ts';

// Found through the index on tx_id as the relay does it: the view would walk the whole journal for the same answer.
const statement = {
  name: 'list-pending-events',
  text: `
    with missing as (
      select id from outbox where tx_id >= pg_snapshot_xmax($1::pg_snapshot)
      union all
      select id from outbox where tx_id = any (array(select pg_snapshot_xip($1::pg_snapshot)))
    )
    select id, event_id as "eventId", event_type as "eventType", aggregate_type as "aggregateType",
           aggregate_id as "aggregateId", aggregate_version as "aggregateVersion", created_at as "createdAt",
           'new' as state, 0 as attempts, null as "lastError", null as "failedAt", null as "nextRetryAt",
           null as "deadAt"
    from outbox join missing using (id)
    where not (pg_visible_in_snapshot(tx_id, $2::pg_snapshot) and id <= $3)
      and ($4::text is null or aggregate_type = $4 and aggregate_id = $5)
      and ($6::text is null or event_type = $6)
      and not exists (select from outbox_failed where outbox_id = outbox.id)
    order by id
    limit $7`,
};

/** Committed events that the relay has not come to yet; oldest first. */
export const listPendingEvents = async (
  db: SqlRunner,
  { aggregate, eventType, limit }: EventFilter,
): Promise<readonly OutboxEvent[]> => {
  const { from, to, lastId } = await loadOutboxCursor(db).catch(explainForeignCursor);
  return db.execute<OutboxEvent>(statement, [
    from,
    to,
    lastId,
    aggregate?.aggregateType ?? null,
    aggregate?.aggregateId ?? null,
    eventType ?? null,
    limit,
  ]);
};

const explainForeignCursor = (error: unknown): never => {
  if (!(error instanceof ForeignCursor)) throw error;
  throw new OperatorError(error.message, {
    remedy: 'Say where the relay has to go on with millrace relay resync, then look again',
    cause: error,
  });
};
