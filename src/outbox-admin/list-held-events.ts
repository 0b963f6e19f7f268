import type { SqlRunner } from '../postgres/database.ts';
import type { EventFilter } from './event-selection.ts';
import { eventColumns, type OutboxEvent } from './outbox-event.ts';

const statement = {
  name: 'list-held-events',
  text: `
    select ${eventColumns}
    from outbox_held_event
    where (state = 'dead') = $1
      and ($2::text is null or aggregate_type = $2 and aggregate_id = $3)
      and ($4::text is null or event_type = $4)
    order by id
    limit $5`,
};

const list = (db: SqlRunner, dead: boolean, { aggregate, eventType, limit }: EventFilter) =>
  db.execute<OutboxEvent>(statement, [
    dead,
    aggregate?.aggregateType ?? null,
    aggregate?.aggregateId ?? null,
    eventType ?? null,
    limit,
  ]);

/** Events that are tried again, and those that wait behind them; oldest first. */
export const listFailedEvents = (db: SqlRunner, filter: EventFilter): Promise<readonly OutboxEvent[]> =>
  list(db, false, filter);

/** Events that nobody tries any more until an operator decides; oldest first. */
export const listDeadEvents = (db: SqlRunner, filter: EventFilter): Promise<readonly OutboxEvent[]> =>
  list(db, true, filter);
