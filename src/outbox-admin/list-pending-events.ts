import { OperatorError } from '../operator-error.ts';
import type { SqlRunner } from '../postgres/database.ts';
import { loadPositions, type ShardPosition } from '../relay/load-positions.ts';
import { pendingIds } from '../relay/missing-rows.ts';
import { ForeignCursor } from '../relay/outbox-cursor.ts';
import { inShard, type Shard, statementSuffix } from '../relay/shard.ts';
import type { EventFilter } from './event-selection.ts';
import type { OutboxEvent } from './outbox-event.ts';

const cursorParameters = {
  from: '$1::pg_snapshot',
  to: '$2::pg_snapshot',
  lastId: '$3',
  restoredLastId: '$4',
};

// Found through the index on tx_id as the relay does it: the view would walk the whole journal for the same answer.
const statement = (shard: Shard) => ({
  name: `list-pending-events${statementSuffix(shard)}`,
  text: `
    with pending as (${pendingIds(cursorParameters)})
    select id, event_id as "eventId", event_type as "eventType", aggregate_type as "aggregateType",
           aggregate_id as "aggregateId", aggregate_version as "aggregateVersion", created_at as "createdAt",
           'new' as state, 0 as attempts, null as "lastError", null as "failedAt", null as "nextRetryAt",
           null as "deadAt"
    from outbox join pending using (id)
    where ($5::text is null or aggregate_type = $5 and aggregate_id = $6)
      and ($7::text is null or event_type = $7)
      and not exists (select from outbox_failed where outbox_id = outbox.id)
      and not exists (select from outbox_dropped where outbox_id = outbox.id)
      ${inShard(shard)}
    order by id
    limit $8`,
});

/** Committed events that the relay has not come to yet; oldest first. */
export const listPendingEvents = async (
  db: SqlRunner,
  filter: EventFilter,
): Promise<readonly OutboxEvent[]> => {
  const positions = await loadPositions(db).catch(explainForeignCursor);
  const byShard = await Promise.all(positions.map((position) => listOfShard(db, position, filter)));
  return byShard
    .flat()
    .toSorted((a, b) => a.id - b.id)
    .slice(0, filter.limit);
};

const listOfShard = (
  db: SqlRunner,
  { shard, cursor }: ShardPosition,
  { aggregate, eventType, limit }: EventFilter,
): Promise<readonly OutboxEvent[]> =>
  db.execute<OutboxEvent>(statement(shard), [
    cursor.from,
    cursor.to,
    cursor.lastId,
    cursor.restoredLastId ?? null,
    aggregate?.aggregateType ?? null,
    aggregate?.aggregateId ?? null,
    eventType ?? null,
    limit,
  ]);

const explainForeignCursor = (error: unknown): never => {
  if (!(error instanceof ForeignCursor)) throw error;
  throw new OperatorError(error.message, {
    remedy: 'Say where the relay has to go on with millrace relay resync, then look again',
    cause: error,
  });
};
