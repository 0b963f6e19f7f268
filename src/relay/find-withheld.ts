import type { SqlRunner } from '../postgres/database.ts';
import { aggregateKey, type OutboxRow } from './outbox-source.ts';

/** What of a page is not to be sent. */
export interface Withheld {
  /** Aggregates that have a failed row already: what comes later must wait behind it. */
  readonly held: ReadonlySet<string>;
  /** Ids of rows that an operator dropped: they are passed over, for good. */
  readonly dropped: ReadonlySet<number>;
}

const anyStatement = {
  name: 'any-withheld-row',
  text: `
    select exists (select from outbox_failed) as "anyFailed",
           (select max(outbox_id) from outbox_dropped) as "lastDroppedId"`,
};

const heldStatement = {
  name: 'find-held-aggregates',
  text: `
    select distinct f.aggregate_type as "aggregateType", f.aggregate_id as "aggregateId"
    from unnest($1::text[], $2::text[]) as asked(aggregate_type, aggregate_id)
    join outbox_failed f using (aggregate_type, aggregate_id)`,
};

const droppedStatement = {
  name: 'find-dropped-rows',
  text: 'select outbox_id as id from outbox_dropped where outbox_id = any ($1::bigint[])',
};

export const findWithheld = async (db: SqlRunner, rows: readonly OutboxRow[]): Promise<Withheld> => {
  // Nearly always there is none, and then a page costs one cheap question and not a join.
  const [any] = await db.execute<{ anyFailed: boolean; lastDroppedId: number | null }>(anyStatement);
  const held = any?.anyFailed ? await findHeldAggregates(db, rows) : [];
  const lastDroppedId = any?.lastDroppedId ?? 0;
  // Dropped rows lie behind the relay, unless it has been sent back.
  const mayBeDropped = lastDroppedId > 0 && rows.some(({ id }) => id <= lastDroppedId);
  const dropped = mayBeDropped ? await findDroppedRows(db, rows) : [];
  return { held: new Set(held.map(aggregateKey)), dropped: new Set(dropped.map(({ id }) => id)) };
};

const findHeldAggregates = (db: SqlRunner, rows: readonly OutboxRow[]) =>
  db.execute<{ aggregateType: string; aggregateId: string }>(heldStatement, [
    rows.map((row) => row.aggregateType),
    rows.map((row) => row.aggregateId),
  ]);

const findDroppedRows = (db: SqlRunner, rows: readonly OutboxRow[]) =>
  db.execute<{ id: number }>(droppedStatement, [rows.map(({ id }) => id)]);
