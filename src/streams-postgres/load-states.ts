import type { SqlRunner } from '../postgres/database.ts';
import type { ProjectionId, StateRequest } from '../streams/ports.ts';
import { parseExactJson } from './exact-json.ts';
import type { RowStatementsOf } from './row-table.ts';

const statement = {
  name: 'load-states',
  text: `
    select asked.request, s.key, s.value::text as value
    from unnest($3::integer[], $4::text[], $5::text[]) as asked(request, state, key)
    join projection_state s
      on s.projection = $1 and s.version = $2 and s.state = asked.state and s.key = asked.key
    where s.value is not null`,
};

interface Row {
  readonly key: string;
  readonly value: string;
}

/** One query for the states that share a table, and one for each table of its own. */
export const loadStates = async (
  db: SqlRunner,
  rowStatementsOf: RowStatementsOf,
  projection: ProjectionId,
  requests: readonly StateRequest[],
): Promise<readonly ReadonlyMap<string, unknown>[]> => {
  const found = requests.map(() => new Map<string, unknown>());
  await Promise.all([
    loadShared(db, projection, requests, found),
    ...requests.map(async ({ state, keys }, request) => {
      if (!state.table || keys.length === 0) return;
      const { load } = await rowStatementsOf(db, state.table);
      const rows = await db.execute<Row>(load, [keys]);
      for (const { key, value } of rows) found[request]?.set(key, parseExactJson(value));
    }),
  ]);
  return found;
};

const loadShared = async (
  db: SqlRunner,
  { name, version }: ProjectionId,
  requests: readonly StateRequest[],
  found: readonly Map<string, unknown>[],
): Promise<void> => {
  const asked = requests.flatMap(({ state, keys }, request) =>
    state.table ? [] : keys.map((key) => ({ request, state: state.name, key })),
  );
  if (asked.length === 0) return;
  const rows = await db.execute<Row & { request: number }>(statement, [
    name,
    version,
    asked.map(({ request }) => request),
    asked.map(({ state }) => state),
    asked.map(({ key }) => key),
  ]);
  for (const { request, key, value } of rows) found[request]?.set(key, parseExactJson(value));
};
