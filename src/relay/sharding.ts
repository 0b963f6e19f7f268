import type { SqlRunner } from '../postgres/database.ts';

const loadStatement = { name: 'load-sharding', text: 'select shards from relay_sharding' };

/** The number of shards in force; the database has it, so that all relays agree. */
export const loadShardCount = async (db: SqlRunner): Promise<number> => {
  const [row] = await db.execute<{ shards: number }>(loadStatement);
  return row?.shards ?? 1;
};

const beginStatement = {
  name: 'begin-sharding',
  text: 'update relay_sharding set shards = $1, begun_at = clock_timestamp() where begun_at is null',
};

/** The number of shards in force. The first relay that ever starts decides it; later only an operator changes it. */
export const beginSharding = async (db: SqlRunner, wanted: number): Promise<number> => {
  await db.execute(beginStatement, [wanted]);
  return loadShardCount(db);
};
