import type { SqlRunner } from '../postgres/database.ts';
import { handledKeyText } from '../streams/fold-effects.ts';
import type { HandledKey } from '../streams/topology.ts';

const statement = {
  name: 'mark-handled',
  text: `
    insert into event_handled (aggregate_type, aggregate_id, action)
    select * from unnest($1::text[], $2::text[], $3::text[]) as key(aggregate_type, aggregate_id, action)
    order by 1, 2, 3
    on conflict do nothing
    returning aggregate_type as "aggregateType", aggregate_id as "aggregateId", action`,
};

/** Marks keys as handled and answers with those that were not before. Sorted, so that two batches cannot deadlock. */
export const markHandled = async (
  tx: SqlRunner,
  keys: readonly HandledKey[],
): Promise<ReadonlySet<string>> => {
  if (keys.length === 0) return new Set();
  const rows = await tx.execute<HandledKey>(statement, [
    keys.map((key) => key.aggregateType),
    keys.map((key) => key.aggregateId),
    keys.map((key) => key.action),
  ]);
  return new Set(rows.map(handledKeyText));
};
