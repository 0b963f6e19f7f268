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
  const elsewhere = await scopes.elsewhere(projection, requests);
  const asked = new Map<string, Asked>();
  const needed = requests.map(({ bucketStartMs }, index) =>
    [numbers[index] ?? 0, ...(elsewhere[index] ?? [])].map((scope) => {
      const id = `${scope} ${bucketStartMs}`;
      asked.set(id, { scope, bucketStartMs });
      return id;
    }),
  );
  const found = await findIds(db, asked);
  return needed.map(([own = '', ...others]) =>
    others.length === 0 ? (found.get(own) ?? []) : [own, ...others].flatMap((id) => found.get(id) ?? []),
  );
};

const findIds = async (
  db: SqlRunner,
  asked: ReadonlyMap<string, Asked>,
): Promise<ReadonlyMap<string, readonly string[]>> => {
  const ids = [...asked.keys()];
  const wanted = [...asked.values()];
  const rows = await db.execute<{ position: number; ids: Buffer }>(statement, [
    wanted.map(({ scope }) => scope),
    wanted.map(({ bucketStartMs }) => bucketStartMs),
  ]);
  return new Map(rows.map(({ position, ids: packed }) => [ids[position - 1] ?? '', unpackIds(packed)]));
};
