import type { SqlRunner } from '../postgres/database.ts';
import type { DueRequest, DueState, ProjectionId } from '../streams/ports.ts';
import { parseExactJson } from './exact-json.ts';

/** Each clock has an index of its own, in the order of its times: of a long list only its beginning is read. */
const earliestBy = (column: string, untilMs: string): string => `
    (select state, key, ${column} as due from projection_state
     where projection = $1 and version = $2 and partition = $3 and ${column} <= to_timestamp(${untilMs}::float8 / 1000)
       and (state = any ($8::text[])) <> $9
     order by ${column}, state, key
     limit $7)`;

const statement = {
  name: 'find-due-states-by-clock',
  text: `
    with due as (
      select state, key, min(due) as due
      from (${earliestBy('due_at', '$4')}
        union all ${earliestBy('stream_due_at', '$5')}
        union all ${earliestBy('clock_due_at', '$6')}) earliest
      group by state, key
      order by min(due), state, key
      limit $7)
    select s.state, s.key, s.value::text as value, (extract(epoch from due.due) * 1000)::float8 as "dueAtMs"
    from due join projection_state s
      on s.projection = $1 and s.version = $2 and s.state = due.state and s.key = due.key
    order by due.due, s.state, s.key`,
};

export const findDue = async (
  db: SqlRunner,
  { name, version }: ProjectionId,
  {
    partition,
    untilMs,
    streamTimeMs = Number.NEGATIVE_INFINITY,
    wallClockMs = Number.NEGATIVE_INFINITY,
    statesMax,
    states,
    others = false,
  }: DueRequest,
): Promise<readonly DueState[]> => {
  const rows = await db.execute<Omit<DueState, 'value'> & { value: string }>(statement, [
    name,
    version,
    partition,
    untilMs,
    streamTimeMs,
    wallClockMs,
    statesMax,
    states,
    others,
  ]);
  return rows.map((row) => ({ ...row, value: parseExactJson(row.value) }));
};
