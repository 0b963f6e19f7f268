import type { SqlRunner } from '../postgres/database.ts';
import { aggregateKey, type OutboxRow } from './outbox-source.ts';

const statement = {
  name: 'find-held-aggregates',
  text: `
    select distinct f.aggregate_type as "aggregateType", f.aggregate_id as "aggregateId"
    from unnest($1::text[], $2::text[]) as asked(aggregate_type, aggregate_id)
    join outbox_failed f using (aggregate_type, aggregate_id)`,
};

const anyStatement = { name: 'any-failed-row', text: 'select exists (select from outbox_failed) as found' };

/** The aggregates among these rows that have a failed row already: what comes later must wait behind it. */
export const findHeldAggregates = async (
  db: SqlRunner,
  rows: readonly OutboxRow[],
): Promise<ReadonlySet<string>> => {
  // Nearly always there is none, and then a page costs one cheap question and not a join.
  const [any] = await db.execute<{ found: boolean }>(anyStatement);
  if (!any?.found) return new Set();
  const held = await db.execute<{ aggregateType: string; aggregateId: string }>(statement, [
    rows.map((row) => row.aggregateType),
    rows.map((row) => row.aggregateId),
  ]);
  return new Set(held.map(aggregateKey));
};
