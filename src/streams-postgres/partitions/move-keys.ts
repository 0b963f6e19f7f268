import type { SqlRunner } from '../../postgres/database.ts';

/** The partition of a key among so many. */
export type PartitionOf = (key: string, partitions: number) => number;

export interface MovedTopic {
  readonly topic: string;
  readonly before: number;
  readonly partitions: number;
}

export interface BuildToMove {
  readonly projection: string;
  readonly version: number;
  readonly topics: readonly MovedTopic[];
}

export interface MovedKeys {
  readonly states: number;
  readonly parkedKeys: number;
}

const pageRowsMax = 5000;

const statesStatement = {
  name: 'page-states-to-move',
  text: `
    select state, key, topic, partition from projection_state
    where projection = $1 and version = $2 and (state, key) > ($3, $4)
    order by state, key limit $5`,
};

const moveStatesStatement = {
  name: 'move-states',
  text: `
    update projection_state s set partition = m.partition
    from unnest($3::text[], $4::text[], $5::integer[]) as m(state, key, partition)
    where s.projection = $1 and s.version = $2 and s.state = m.state and s.key = m.key`,
};

const parkedStatement = {
  name: 'list-parked-keys-to-move',
  text: `
    select topic, partition, key from projection_parked_key
    where projection = $1 and version = $2 and topic = any ($3::text[])`,
};

const moveParkedStatement = {
  name: 'move-parked-keys',
  text: `
    update projection_parked_key p set partition = m.partition
    from unnest($3::text[], $4::integer[], $5::text[], $6::integer[]) as m(topic, old_partition, key, partition)
    where p.projection = $1 and p.version = $2 and p.topic = m.topic and p.partition = m.old_partition and p.key = m.key`,
};

interface StateRow {
  readonly state: string;
  readonly key: string;
  readonly topic: string;
  readonly partition: number;
}

/**
 * Moves what a build keeps by partition to where its keys live from now on, in the transaction of whoever holds the build.
 * A state whose key is no record's key does not lie where the hash says; it stays with the task that made it.
 */
export const moveKeys = async (
  tx: SqlRunner,
  { projection, version, topics }: BuildToMove,
  partitionOf: PartitionOf,
): Promise<MovedKeys> => {
  const byTopic = new Map(topics.map((topic) => [topic.topic, topic]));
  const movedOf = <T extends { key: string; topic: string; partition: number }>(rows: readonly T[]) =>
    rows.flatMap((row) => {
      const topic = byTopic.get(row.topic);
      if (!topic || partitionOf(row.key, topic.before) !== row.partition) return [];
      const to = partitionOf(row.key, topic.partitions);
      return to === row.partition ? [] : [{ ...row, to }];
    });

  let states = 0;
  for (let last: Pick<StateRow, 'state' | 'key'> | undefined = { state: '', key: '' }; last; ) {
    const page: readonly StateRow[] = await tx.execute<StateRow>(statesStatement, [
      projection,
      version,
      last.state,
      last.key,
      pageRowsMax,
    ]);
    const moved = movedOf(page);
    if (moved.length > 0)
      await tx.execute(moveStatesStatement, [
        projection,
        version,
        moved.map(({ state }) => state),
        moved.map(({ key }) => key),
        moved.map(({ to }) => to),
      ]);
    states += moved.length;
    last = page.length === pageRowsMax ? page.at(-1) : undefined;
  }

  const parked = movedOf(
    await tx.execute<{ topic: string; partition: number; key: string }>(parkedStatement, [
      projection,
      version,
      [...byTopic.keys()],
    ]),
  );
  if (parked.length > 0)
    await tx.execute(moveParkedStatement, [
      projection,
      version,
      parked.map(({ topic }) => topic),
      parked.map(({ partition }) => partition),
      parked.map(({ key }) => key),
      parked.map(({ to }) => to),
    ]);
  return { states, parkedKeys: parked.length };
};
