import type { SqlRunner } from '../../postgres/database.ts';
import { type Refusal, refusalOf, refusalPattern } from '../refusal.ts';
import type { ParkedEvent, RefusedEvents } from './stall-reason.ts';

/** Events that did not get through, and what waits behind them. */
export interface ParkedEvents {
  /** Those that a topic or the registry refuses, by what is refused. */
  readonly refused: readonly RefusedKind[];
  /** The others; null when there are none. */
  readonly single: SingleEvents | null;
}

export interface RefusedKind extends RefusedEvents {
  readonly oldestAt: Date;
  readonly refusal: Refusal;
}

export interface SingleEvents {
  readonly oldestAt: Date;
  readonly events: number;
  readonly aggregates: number;
  readonly first: ParkedEvent;
}

// What became of the first event of an aggregate is why the others wait. Of the first events a dead one comes first:
// nothing but an operator moves it.
const statement = {
  name: 'read-parked-events',
  text: `
    with head as (
      select distinct on (aggregate_type, aggregate_id)
             outbox_id, created_at, dead_at, case when last_error ~ $1 then last_error end as refusal,
             count(*) over (partition by aggregate_type, aggregate_id) as events
      from outbox_failed
      order by aggregate_type, aggregate_id, outbox_id
    ), parked as (
      select refusal, count(*) as aggregates, sum(events)::bigint as events, count(dead_at) as "deadAggregates",
             min(created_at) as "oldestAt", (array_agg(outbox_id order by dead_at is null, outbox_id))[1] as first_id
      from head
      group by refusal
    )
    select parked.refusal, parked.aggregates, parked.events, parked."deadAggregates", parked."oldestAt",
           first.outbox_id as id, first.aggregate_type as "aggregateType", first.aggregate_id as "aggregateId",
           first.dead_at is not null as dead, first.retry_count as attempts, left(first.last_error, 300) as "lastError"
    from parked join outbox_failed first on first.outbox_id = parked.first_id
    order by parked.first_id`,
};

interface ParkedGroup extends Omit<SingleEvents, 'first'>, ParkedEvent {
  readonly refusal: string | null;
  readonly deadAggregates: number;
}

/** By what is refused, and the rest by its foremost event. */
export const readParkedEvents = async (db: SqlRunner): Promise<ParkedEvents> => {
  const groups = await db.execute<ParkedGroup>(statement, [refusalPattern]);
  const single = groups.find(({ refusal }) => refusal === null);
  return { refused: groups.flatMap(refusedKind), single: single ? singleEvents(single) : null };
};

const refusedKind = ({ refusal: text, ...group }: ParkedGroup): readonly RefusedKind[] => {
  const refusal = text === null ? undefined : refusalOf(text);
  const { oldestAt, events, aggregates, deadAggregates: dead } = group;
  return refusal ? [{ oldestAt, events, aggregates, dead, refusal }] : [];
};

const singleEvents = (group: ParkedGroup): SingleEvents => {
  const { oldestAt, events, aggregates, id, aggregateType, aggregateId, dead, attempts, lastError } = group;
  const first = { id, aggregateType, aggregateId, dead, attempts, lastError };
  return { oldestAt, events, aggregates, first };
};
