import type { SqlRunner } from '../postgres/database.ts';
import type { DueRequest, DueState, ProjectionId } from '../streams/ports.ts';
import { parseExactJson } from './exact-json.ts';

const statement = {
  name: 'find-due-states',
  text: `
    select state, key, value::text as value, (extract(epoch from due_at) * 1000)::float8 as "dueAtMs"
    from projection_state
    where projection = $1 and version = $2 and partition = $3 and due_at <= to_timestamp($4::float8 / 1000)
      and (state = any ($6::text[])) <> $7
    order by due_at, state, key
    limit $5`,
};

export const findDue = async (
  db: SqlRunner,
  { name, version }: ProjectionId,
  { partition, untilMs, statesMax, states, others = false }: DueRequest,
): Promise<readonly DueState[]> => {
  const rows = await db.execute<Omit<DueState, 'value'> & { value: string }>(statement, [
    name,
    version,
    partition,
    untilMs,
    statesMax,
    states,
    others,
  ]);
  return rows.map((row) => ({ ...row, value: parseExactJson(row.value) }));
};
