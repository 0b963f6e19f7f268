import type { SqlRunner } from '../postgres/database.ts';
import type { HandledIds, ProjectionId } from '../streams/ports.ts';
import { unpackIds } from './packed-ids.ts';
import type { ProjectionScopes } from './projection-scopes.ts';

// The subquery keeps the planner to what is meant: one look into the index of one day per stretch that is asked for.
const statement = {
  name: 'load-handled',
  text: `
    select asked.position, found.ids
    from unnest($1::integer[], $2::bigint[]) with ordinality as asked(scope, bucket_start_ms, position)
    cross join lateral (
      select string_agg(handled.ids, ''::bytea) as ids
      from projection_handled handled
      where handled.scope = asked.scope and handled.bucket_start_ms = asked.bucket_start_ms
    ) found
    where found.ids is not null`,
};

interface Asked {
  readonly scope: number;
  readonly bucketStartMs: number;
}

/** One query, however many places and stretches of time are asked for. */
export const loadHandled = async (
  db: SqlRunner,
  scopes: ProjectionScopes,
  projection: ProjectionId,
  requests: readonly Omit<HandledIds, 'ids'>[],
): Promise<readonly (readonly string[])[]> => {
  if (requests.length === 0) return [];
  const numbers = await scopes.of(projection, requests);
  const asked = requests.map(({ bucketStartMs }, index) => ({ scope: numbers[index] ?? 0, bucketStartMs }));
  const withoutPlace = await scopes.withoutPlace(projection);
  if (withoutPlace === undefined) return findIds(db, asked);

  const times = [...new Set(requests.map(({ bucketStartMs }) => bucketStartMs))];
  const found = await findIds(db, [
    ...asked,
    ...times.map((bucketStartMs) => ({ scope: withoutPlace, bucketStartMs })),
  ]);
  const anywhere = new Map(times.map((time, index) => [time, found[asked.length + index] ?? []]));
  return asked.map(({ bucketStartMs }, index) => [
    ...(found[index] ?? []),
    ...(anywhere.get(bucketStartMs) ?? []),
  ]);
};

const findIds = async (db: SqlRunner, asked: readonly Asked[]): Promise<readonly (readonly string[])[]> => {
  const rows = await db.execute<{ position: number; ids: Buffer }>(statement, [
    asked.map(({ scope }) => scope),
    asked.map(({ bucketStartMs }) => bucketStartMs),
  ]);
  const found: (readonly string[])[] = asked.map(() => []);
  for (const { position, ids } of rows) found[position - 1] = unpackIds(ids);
  return found;
};
