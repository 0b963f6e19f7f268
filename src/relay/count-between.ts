import type { SqlRunner } from '../postgres/database.ts';
import { missingFrom, restoredUntilId } from './missing-rows.ts';
import type { OutboxCursor } from './outbox-cursor.ts';
import { inShard, type Shard, statementSuffix } from './shard.ts';

const statement = (shard: Shard) => ({
  name: `count-outbox-rows-between${statementSuffix(shard)}`,
  text: `
    select
      (select count(*)
       from outbox join (${missingFrom('$1::pg_snapshot')}) missing using (id)
       where not (pg_visible_in_snapshot(outbox.tx_id, $2::pg_snapshot) and id <= $3)
         and (pg_visible_in_snapshot(outbox.tx_id, $4::pg_snapshot)
           or pg_visible_in_snapshot(outbox.tx_id, $5::pg_snapshot) and id <= $6) ${inShard(shard)})
      + (select count(*) from outbox
         where id > $7::bigint and id <= coalesce($8, ${restoredUntilId}) ${inShard(shard)}) as count`,
});

/** How many rows of a shard lie behind `reached` and still before a cursor. */
export const countBetween = async (
  db: SqlRunner,
  { shard, cursor, reached }: { shard: Shard; cursor: OutboxCursor; reached: OutboxCursor },
): Promise<number> => {
  const partsOf = ({ from, to, lastId }: OutboxCursor) => [from, to, lastId];
  const values = [
    ...partsOf(cursor),
    ...partsOf(reached),
    cursor.restoredLastId ?? null,
    reached.restoredLastId ?? null,
  ];
  const [row] = await db.execute<{ count: number }>(statement(shard), values);
  return row?.count ?? 0;
};
