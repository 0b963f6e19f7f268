import type { SqlRunner } from '../postgres/database.ts';
import type { BuildToMove } from '../streams-postgres/partitions/move-keys.ts';

/** What a topic-partition has. */
export interface PartitionRange {
  readonly topic: string;
  readonly partition: number;
  readonly start: number;
  /** The offset after the last one. */
  readonly end: number;
}

/** Records of a topic-partition that a live projection has not applied. */
export interface Backlog {
  readonly projection: string;
  readonly topic: string;
  readonly partition: number;
  readonly records: number;
}

const statement = {
  name: 'list-checkpoints-of-build',
  text: `
    select topic, partition, next_offset as "nextOffset" from projection_checkpoint
    where projection = $1 and version = $2`,
};

/** Of the partitions that a build knows: it reads no other before it was moved. */
export const findBacklog = async (
  db: SqlRunner,
  builds: readonly BuildToMove[],
  ranges: readonly PartitionRange[],
): Promise<readonly Backlog[]> => {
  const found: Backlog[] = [];
  for (const { projection, version, topics } of builds) {
    const rows = await db.execute<{ topic: string; partition: number; nextOffset: number }>(statement, [
      projection,
      version,
    ]);
    const offsets = new Map(rows.map((row) => [`${row.topic}/${row.partition}`, row.nextOffset]));
    const known = new Map(topics.map(({ topic, before }) => [topic, before]));
    for (const { topic, partition, start, end } of ranges) {
      if (partition >= (known.get(topic) ?? 0)) continue;
      const applied = offsets.get(`${topic}/${partition}`) ?? 0;
      // What retention has taken is not waited for. A checkpoint behind the end is that of another log: all of this is to be read.
      const records = end - Math.max(start, applied > end ? 0 : applied);
      if (records > 0) found.push({ projection, topic, partition, records });
    }
  }
  return found;
};

const shownMax = 5;

export const describeBacklog = (backlog: readonly Backlog[]): string => {
  const shown = backlog
    .slice(0, shownMax)
    .map(
      ({ projection, topic, partition, records }) =>
        `${projection} is ${records.toLocaleString('en-US')} records behind in ${topic}/${partition}`,
    );
  return [...shown, ...(backlog.length > shownMax ? [`and ${backlog.length - shownMax} more`] : [])].join(
    ', ',
  );
};
