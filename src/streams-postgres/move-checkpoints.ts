import type { SqlRunner } from '../postgres/database.ts';
import { BuildReplaced, type Move, type ProjectionId } from '../streams/ports.ts';

// Locked in the order of the places before anything is changed: two holders of the same places wait for each other in turn.
// The build's own row is locked against whoever holds the projection still, or swaps it for another build of it.
const statement = {
  name: 'move-checkpoints',
  text: `
    with build as materialized (
      select status from projection_build where projection = $1 and version = $2 for key share
    ), move as materialized (
      select * from unnest($3::text[], $4::integer[], $5::bigint[], $6::bigint[], $7::float8[], $8::bigint[])
        as m(topic, partition, expected_offset, next_offset, stream_time_ms, late_records)
    ), held as materialized (
      select c.topic, c.partition
      from projection_checkpoint c join move m on m.topic = c.topic and m.partition = c.partition
      where c.projection = $1 and c.version = $2 and m.expected_offset is not null
      order by c.topic, c.partition
      for update of c
    ), moved as (
      update projection_checkpoint c
      set next_offset = m.next_offset, stream_time = to_timestamp(m.stream_time_ms / 1000),
          late_records = c.late_records + m.late_records, moved_at = clock_timestamp()
      from held join move m using (topic, partition)
      where c.projection = $1 and c.version = $2 and c.topic = m.topic and c.partition = m.partition
        and c.next_offset = m.expected_offset
      returning true
    ), created as (
      insert into projection_checkpoint (projection, version, topic, partition, next_offset, stream_time, late_records)
      select $1, $2, topic, partition, next_offset, to_timestamp(stream_time_ms / 1000), late_records
      from move where expected_offset is null
      order by topic, partition
      on conflict do nothing
      returning true
    )
    select (select count(*) from moved) + (select count(*) from created) as count, (select status from build) as status`,
};

/** Compare and set, all of them: false when one is not where the batch began; then the transaction has to be undone. */
export const moveCheckpoints = async (
  tx: SqlRunner,
  projection: ProjectionId,
  moves: readonly Move[],
): Promise<boolean> => {
  if (moves.length === 0) return true;
  const [moved] = await tx.execute<{ count: number; status: string | null }>(statement, [
    projection.name,
    projection.version,
    moves.map((move) => move.topic),
    moves.map((move) => move.partition),
    moves.map((move) => move.expectedOffset ?? null),
    moves.map((move) => move.nextOffset),
    moves.map((move) => move.streamTimeMs),
    moves.map((move) => move.lateRecords),
  ]);
  if (moved?.status === 'retired' || moved?.status === 'dropping')
    throw new BuildReplaced(`Build ${projection.version} of ${projection.name} is not live any more`);
  return moved?.count === moves.length;
};
