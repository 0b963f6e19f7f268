import type { SqlRunner } from '../postgres/database.ts';
import type { DueState, ProjectionId } from '../streams/ports.ts';
import type { Place } from '../streams/record.ts';
import { parseExactJson } from './exact-json.ts';

const statement = {
  name: 'find-due-states',
  text: `
    select state, key, value::text as value, (extract(epoch from due_at) * 1000)::float8 as "dueAtMs"
    from projection_state
    where projection = $1 and version = $2 and topic = $3 and partition = $4 and due_at <= to_timestamp($5::float8 / 1000)
    order by due_at, state, key
    limit $6`,
};

export interface DueRequest {
  readonly place: Place;
  readonly untilMs: number;
  readonly statesMax: number;
}

export const findDue = async (
  db: SqlRunner,
  { name, version }: ProjectionId,
  { place, untilMs, statesMax }: DueRequest,
): Promise<readonly DueState[]> => {
  const rows = await db.execute<Omit<DueState, 'place' | 'value'> & { value: string }>(statement, [
    name,
    version,
    place.topic,
    place.partition,
    untilMs,
    statesMax,
  ]);
  return rows.map((row) => ({ ...row, place, value: parseExactJson(row.value) }));
};
