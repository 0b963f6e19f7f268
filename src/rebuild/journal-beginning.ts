import type { SqlRunner } from '../postgres/database.ts';

// An event is written after the one before it of its aggregate: where that is missing, rows were taken away.
const statement = {
  name: 'find-torn-beginning',
  text: `
    select first.id, first.occurred_at as "occurredAt"
    from (select id, occurred_at, aggregate_type, aggregate_id, aggregate_version from outbox order by id limit 1000) first
    where first.aggregate_version > 1
      and not exists (
        select from outbox o
        where o.aggregate_type = first.aggregate_type and o.aggregate_id = first.aggregate_id
          and o.aggregate_version = first.aggregate_version - 1)
    order by first.id limit 1`,
};

/**
 * When what is left of a journal begins that somebody has taken rows out of; undefined where it has its beginning. The oldest
 * rows tell: among those that are left, some go on with what is not there.
 */
export const findTornBeginning = async (db: SqlRunner): Promise<Date | undefined> => {
  const [row] = await db.execute<{ occurredAt: Date }>(statement);
  return row?.occurredAt;
};
