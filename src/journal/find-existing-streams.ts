import type { SqlRunner } from '../postgres/database.ts';
import type { StreamId } from './seal-event.ts';

const statement = {
  name: 'find-existing-streams',
  text: `
    select w.place
    from unnest($1::text[], $2::text[]) with ordinality as w(type, id, place)
    where exists (select from outbox
                  where aggregate_type = w.type and aggregate_id = w.id and aggregate_version = 1)`,
};

/** Which of the streams have begun, in one round trip and without reading them. */
export const findExistingStreams = async (
  db: SqlRunner,
  streams: readonly StreamId[],
): Promise<readonly StreamId[]> => {
  if (streams.length === 0) return [];
  const rows = await db.execute<{ place: number }>(statement, [
    streams.map((stream) => stream.aggregateType),
    streams.map((stream) => stream.aggregateId),
  ]);
  return rows.flatMap(({ place }) => streams[place - 1] ?? []);
};
