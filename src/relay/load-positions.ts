import type { SqlRunner } from '../postgres/database.ts';
import { type CursorColumns, type OutboxCursor, requireOwnCursor, toCursor } from './outbox-cursor.ts';
import type { Shard } from './shard.ts';

/** How far the relay has come in a shard, whether it reads the table or the log. */
export interface ShardPosition {
  readonly shard: Shard;
  readonly cursor: OutboxCursor;
}

const statement = {
  name: 'load-outbox-positions',
  text: `
    select shard as number, shards as of, from_snapshot::text as "from", to_snapshot::text as "to",
           last_id as "lastId", restored_last_id as "restoredLastId",
           coalesce(system_identifier = (select system_identifier from pg_control_system()), true) as "sameSystem",
           pg_snapshot_xmax(to_snapshot) > pg_snapshot_xmax(pg_current_snapshot()) as "fromTheFuture"
    from outbox_position order by shard`,
};

/** One for each shard that is in force. */
export const loadPositions = async (db: SqlRunner): Promise<readonly ShardPosition[]> => {
  const rows = await db.execute<
    Shard & CursorColumns & { readonly sameSystem: boolean; readonly fromTheFuture: boolean }
  >(statement);
  return rows.map(({ number, of, ...row }) => {
    requireOwnCursor(row);
    return { shard: { number, of }, cursor: toCursor(row) };
  });
};
