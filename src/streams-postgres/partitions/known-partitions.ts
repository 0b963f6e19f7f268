import type { SqlRunner } from '../../postgres/database.ts';
import type { ProjectionId } from '../../streams/ports.ts';

export type PartitionCounts = ReadonlyMap<string, number>;

const rememberStatement = {
  name: 'remember-partitions',
  text: `
    insert into projection_topic (projection, version, topic, partitions)
    select $1, $2, topic, partitions from unnest($3::text[], $4::integer[]) as t(topic, partitions)
    order by topic
    on conflict do nothing`,
};

const loadStatement = {
  name: 'load-partitions',
  text: 'select topic, partitions from projection_topic where projection = $1 and version = $2',
};

/** How many partitions each topic has for what the build keeps: what was stored first counts, and is stored if nothing was. */
export const knownPartitions = async (
  db: SqlRunner,
  { name, version }: ProjectionId,
  counts: PartitionCounts,
): Promise<PartitionCounts> => {
  await db.execute(rememberStatement, [name, version, [...counts.keys()], [...counts.values()]]);
  return loadKnownPartitions(db, { name, version });
};

export const loadKnownPartitions = async (
  db: SqlRunner,
  { name, version }: ProjectionId,
): Promise<PartitionCounts> => {
  const rows = await db.execute<{ topic: string; partitions: number }>(loadStatement, [name, version]);
  return new Map(rows.map(({ topic, partitions }) => [topic, partitions]));
};
