import type { SqlRunner } from '../../postgres/database.ts';
import type { BuildToMove, MovedTopic } from './move-keys.ts';

/**
 * The time that keys of a partition have seen where they were before. With a multiple of the partitions all of them come from
 * one; otherwise from any, and the latest holds, so that no window that was closed is opened again.
 */
const timeBefore = (partition: string, before: string, partitions: string, times: string): string => `
  select max(old.stream_time) from (${times}) old
  where ${partitions} % ${before} <> 0 or old.partition = ${partition} % ${before}`;

// From the beginning, also where a projection without a checkpoint starts at the end: nobody was there before.
const openPlacesStatement = {
  name: 'open-added-partitions',
  text: `
    insert into projection_checkpoint as c (projection, version, topic, partition, next_offset, stream_time)
    select $1, $2, $3, p, 0, coalesce((${timeBefore(
      'p',
      '$4::integer',
      '$5::integer',
      `select partition, stream_time from projection_checkpoint where projection = $1 and version = $2 and topic = $3`,
    )}), '-infinity')
    from generate_series($4::integer, $5::integer - 1) p
    on conflict do nothing`,
};

const raisePlacesStatement = {
  name: 'raise-times-of-partitions',
  text: `
    update projection_checkpoint c
    set stream_time = (select max(stream_time) from projection_checkpoint
                       where projection = $1 and version = $2 and topic = $3)
    where projection = $1 and version = $2 and topic = $3`,
};

// Every task has one commit more: whatever was computed before is fenced, and loaded anew.
const openTasksStatement = {
  name: 'open-tasks-of-partitions',
  text: `
    insert into projection_task as k (projection, version, partition, commits, stream_time)
    select $1, $2, p, 1, coalesce((${timeBefore(
      'p',
      '$3::integer',
      '$4::integer',
      `select partition, stream_time from projection_task where projection = $1 and version = $2`,
    )}), '-infinity')
    from generate_series(0, $4::integer - 1) p
    order by p
    on conflict (projection, version, partition) do update
    set commits = k.commits + 1, stream_time = greatest(k.stream_time, excluded.stream_time)`,
};

const rememberStatement = {
  name: 'set-partitions',
  text: `
    insert into projection_topic (projection, version, topic, partitions) values ($1, $2, $3, $4)
    on conflict (projection, version, topic) do update set partitions = excluded.partitions`,
};

/** Checkpoints and tasks for partitions that are new to a build. */
export const openPartitions = async (
  tx: SqlRunner,
  { projection, version, topics }: BuildToMove,
): Promise<void> => {
  for (const { topic, before, partitions } of topics) {
    if (partitions % before !== 0) await tx.execute(raisePlacesStatement, [projection, version, topic]);
    await tx.execute(openPlacesStatement, [projection, version, topic, before, partitions]);
    await tx.execute(rememberStatement, [projection, version, topic, partitions]);
  }
  const before = Math.min(...topics.map((topic) => topic.before));
  const partitions = Math.max(...topics.map((topic) => topic.partitions));
  await tx.execute(openTasksStatement, [projection, version, before, partitions]);
};

/** Clocks of those who make events may be ahead of the database's. */
const clockSkewMs = 3_600_000;
/** An event lies in the same stretch as others that are up to this much later. */
const stretchMs = 10_000;

const growthStatement = {
  name: 'note-topic-growth',
  text: `
    insert into topic_growth as g (topic, partitions_before, partitions, events_until)
    select $1, $2, $3, greatest(
      clock_timestamp() + $4 * interval '1 millisecond',
      (select max(stream_time) from projection_checkpoint where topic = $1 and isfinite(stream_time))
        + $5 * interval '1 millisecond')
    on conflict (topic, partitions) do update set events_until = greatest(g.events_until, excluded.events_until)`,
};

/** From now on, ids of events from before are looked for in all partitions. */
export const noteTopicGrowth = async (
  tx: SqlRunner,
  { topic, before, partitions }: MovedTopic,
): Promise<void> => {
  await tx.execute(growthStatement, [topic, before, partitions, clockSkewMs, stretchMs]);
};
