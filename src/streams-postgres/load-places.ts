import type { SqlRunner } from '../postgres/database.ts';
import type { Checkpoint, ParkedKey, PlaceState, ProjectionId } from '../streams/ports.ts';
import type { Place } from '../streams/record.ts';

const statement = {
  name: 'load-places',
  text: `
    select c.next_offset as "nextOffset", (extract(epoch from c.stream_time) * 1000)::float8 as "streamTimeMs",
           c.topic_id as "topicId", c.leader_epoch as "leaderEpoch", t.commits, (extract(epoch from t.stream_time) * 1000)::float8 as "taskTimeMs",
           (select json_agg(json_build_object('key', p.key, 'sinceOffset', p.since_offset, 'records', p.records,
                                              'reason', p.reason, 'brokenReplay', p.broken_replay)
                            order by p.since_offset, p.key)
            from projection_parked_key p
            where p.projection = $1 and p.version = $2 and p.topic = place.topic and p.partition = place.partition
           ) as parked
    from unnest($3::text[], $4::integer[]) with ordinality as place(topic, partition, position)
    left join projection_checkpoint c
      on c.projection = $1 and c.version = $2 and c.topic = place.topic and c.partition = place.partition
    left join projection_task t
      on t.projection = $1 and t.version = $2 and t.partition = place.partition
    order by place.position`,
};

interface Row {
  readonly nextOffset: number | null;
  readonly streamTimeMs: number | null;
  readonly topicId: string | null;
  readonly leaderEpoch: number | null;
  readonly commits: number | null;
  readonly taskTimeMs: number | null;
  readonly parked: readonly ParkedKey[] | null;
}

/** Checkpoints, tasks and parked keys as of one moment. */
export const loadPlaces = async (
  db: SqlRunner,
  projection: ProjectionId,
  places: readonly Place[],
): Promise<readonly PlaceState[]> => {
  if (places.length === 0) return [];
  const rows = await db.execute<Row>(statement, [
    projection.name,
    projection.version,
    places.map(({ topic }) => topic),
    places.map(({ partition }) => partition),
  ]);
  return rows.map(({ commits, taskTimeMs, parked, ...checkpoint }) => ({
    checkpoint: checkpointOf(checkpoint),
    task: commits === null || taskTimeMs === null ? undefined : { commits, streamTimeMs: taskTimeMs },
    parked: parked ?? [],
  }));
};

const checkpointOf = ({
  nextOffset,
  streamTimeMs,
  topicId,
  leaderEpoch,
}: Pick<Row, 'nextOffset' | 'streamTimeMs' | 'topicId' | 'leaderEpoch'>): Checkpoint | undefined => {
  if (nextOffset === null || streamTimeMs === null) return undefined;
  if (topicId === null) return { nextOffset, streamTimeMs };
  return { nextOffset, streamTimeMs, log: { topicId, leaderEpoch: leaderEpoch ?? undefined } };
};
