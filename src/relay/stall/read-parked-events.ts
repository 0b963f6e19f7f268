import type { SqlRunner } from '../../postgres/database.ts';
import type { ParkedEvent } from './stall-reason.ts';

export interface ParkedEvents {
  readonly oldestAt: Date;
  readonly events: number;
  readonly aggregates: number;
  readonly first: ParkedEvent;
}

// A dead one first: nothing but an operator moves it.
const statement = {
  name: 'read-parked-events',
  text: `
    with parked as (
      select count(*) as events, count(distinct (aggregate_type, aggregate_id)) as aggregates,
             min(created_at) as "oldestAt"
      from outbox_failed
    )
    select parked.*, first.outbox_id as id, first.aggregate_type as "aggregateType",
           first.aggregate_id as "aggregateId", first.dead_at is not null as dead, first.retry_count as attempts,
           left(first.last_error, 300) as "lastError"
    from parked, lateral (
      select * from outbox_failed head
      where not exists (select from outbox_failed earlier
                        where earlier.aggregate_type = head.aggregate_type and earlier.aggregate_id = head.aggregate_id
                          and earlier.outbox_id < head.outbox_id)
      order by dead_at is null, outbox_id limit 1
    ) first`,
};

/** What did not get through and what waits behind it, by its foremost event. */
export const readParkedEvents = async (db: SqlRunner): Promise<ParkedEvents | null> => {
  const [row] = await db.execute<Omit<ParkedEvents, 'first'> & ParkedEvent>(statement);
  if (!row) return null;
  const { oldestAt, events, aggregates, ...first } = row;
  return { oldestAt, events, aggregates, first };
};
