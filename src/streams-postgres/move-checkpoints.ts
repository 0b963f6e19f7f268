import type { SqlRunner } from '../postgres/database.ts';
import { type BatchCommit, BuildReplaced, ProjectionPaused } from '../streams/ports.ts';

// Locked in order before anything is changed, tasks first: two holders of the same places wait for each other in turn.
// The build's own row is locked against whoever holds the projection still, or swaps it for another build of it.
const statement = {
  name: 'move-checkpoints',
  text: `
    with build as materialized (
      select status, definition_version from projection_build where projection = $1 and version = $2 for key share
    ), move as materialized (
      select * from unnest($3::text[], $4::integer[], $5::bigint[], $6::bigint[], $7::float8[], $8::bigint[],
          $12::bigint[], $13::uuid[], $14::integer[])
        as m(topic, partition, expected_offset, next_offset, stream_time_ms, late_records, early_records, topic_id,
          leader_epoch)
    ), task as materialized (
      select * from unnest($9::integer[], $10::bigint[], $11::float8[])
        as t(partition, expected_commits, stream_time_ms)
    ), held_task as materialized (
      select k.partition
      from projection_task k join task t on t.partition = k.partition
      where k.projection = $1 and k.version = $2 and t.expected_commits is not null
      order by k.partition
      for update of k
    ), held as materialized (
      select c.topic, c.partition
      from projection_checkpoint c join move m on m.topic = c.topic and m.partition = c.partition
      where c.projection = $1 and c.version = $2 and m.expected_offset is not null
        and (select count(*) from held_task) >= 0
      order by c.topic, c.partition
      for update of c
    ), moved as (
      update projection_checkpoint c
      set next_offset = m.next_offset, topic_id = m.topic_id, leader_epoch = m.leader_epoch,
          stream_time = to_timestamp(m.stream_time_ms / 1000),
          late_records = c.late_records + m.late_records,
          early_records = c.early_records + m.early_records, moved_at = clock_timestamp()
      from held join move m using (topic, partition)
      where c.projection = $1 and c.version = $2 and c.topic = m.topic and c.partition = m.partition
        and c.next_offset = m.expected_offset
      returning true
    ), created as (
      insert into projection_checkpoint
        (projection, version, topic, partition, next_offset, stream_time, late_records, early_records, topic_id,
         leader_epoch)
      select $1, $2, topic, partition, next_offset, to_timestamp(stream_time_ms / 1000), late_records, early_records,
             topic_id, leader_epoch
      from move where expected_offset is null
      order by topic, partition
      on conflict do nothing
      returning true
    ), advanced as (
      update projection_task k
      set commits = k.commits + 1, stream_time = to_timestamp(t.stream_time_ms / 1000)
      from held_task join task t using (partition)
      where k.projection = $1 and k.version = $2 and k.partition = t.partition and k.commits = t.expected_commits
      returning true
    ), opened as (
      insert into projection_task (projection, version, partition, commits, stream_time)
      select $1, $2, partition, 1, to_timestamp(stream_time_ms / 1000)
      from task where expected_commits is null
      order by partition
      on conflict do nothing
      returning true
    )
    select (select count(*) from moved) + (select count(*) from created) as moves,
           (select count(*) from advanced) + (select count(*) from opened) as tasks,
           (select status from build) as status,
           (select definition_version from build) as "definitionVersion",
           exists (select from projection_pause where projection = $1) as "isPaused"`,
};

interface Moved {
  readonly moves: number;
  readonly tasks: number;
  /** Null where the projection has no such build. */
  readonly status: string | null;
  readonly definitionVersion: number | null;
  readonly isPaused: boolean;
}

/**
 * Compare and set, all of them: false when one is not where the batch began; then the transaction has to be undone. A version of
 * the definition is given where only that one may commit.
 */
export const moveCheckpoints = async (
  tx: SqlRunner,
  { projection, tasks, moves }: Pick<BatchCommit, 'projection' | 'tasks' | 'moves'>,
  definitionVersion?: number,
): Promise<boolean> => {
  if (moves.length === 0 && tasks.length === 0) return true;
  const [moved] = await tx.execute<Moved>(statement, [
    projection.name,
    projection.version,
    moves.map((move) => move.topic),
    moves.map((move) => move.partition),
    moves.map((move) => move.expectedOffset ?? null),
    moves.map((move) => move.nextOffset),
    moves.map((move) => move.streamTimeMs),
    moves.map((move) => move.lateRecords),
    tasks.map((task) => task.partition),
    tasks.map((task) => task.expectedCommits ?? null),
    tasks.map((task) => task.streamTimeMs),
    moves.map((move) => move.earlyRecords),
    moves.map((move) => move.log?.topicId ?? null),
    moves.map((move) => move.log?.leaderEpoch ?? null),
  ]);
  if (moved?.status === 'retired' || moved?.status === 'dropping')
    throw new BuildReplaced(`Build ${projection.version} of ${projection.name} is not live any more`);
  const adoptedBy = moved?.definitionVersion ?? definitionVersion;
  if (definitionVersion !== undefined && adoptedBy !== definitionVersion)
    throw new BuildReplaced(
      `Version ${adoptedBy} of the definition of ${projection.name} has taken over from ${definitionVersion}`,
    );
  // What a rebuild fills beside the live build is the operator's own doing, and not held.
  if (moved?.isPaused && (moved.status === 'live' || moved.status === null))
    throw new ProjectionPaused(`${projection.name} is paused`);
  return moved?.moves === moves.length && moved.tasks === tasks.length;
};
