import type { SqlRunner } from '../postgres/database.ts';
import { unpackIds } from './packed-ids.ts';

/** Events of one projection and one stretch of event time. */
export interface HandledQuestion {
  readonly projection: string;
  readonly bucketStartMs: number;
  /** Only what batches that began so long ago or later have handled; everything unless told. */
  readonly withinMs?: number;
}

// A commit may be slower to end than to begin: who asks for the newest only has to ask for all of it now and then.
const statement = {
  name: 'find-handled',
  text: `
    select asked.position, handled.ids
    from unnest($1::text[], $2::bigint[], $3::float8[]) with ordinality
      as asked(projection, bucket_start_ms, within_ms, position)
    join projection_live live using (projection)
    join projection_scope scope using (projection, version)
    cross join lateral (
      select h.ids from projection_handled h
      where h.scope = scope.id and h.bucket_start_ms = asked.bucket_start_ms
        and h.handled_at >= coalesce(now() - asked.within_ms * interval '1 millisecond', '-infinity')
      offset 0
    ) handled`,
};

/** What live projections have handled, in the order of the questions, in one query. */
export const findHandled = async (
  db: SqlRunner,
  questions: readonly HandledQuestion[],
): Promise<readonly (readonly string[])[]> => {
  const rows = await db.execute<{ position: number; ids: Buffer }>(statement, [
    questions.map(({ projection }) => projection),
    questions.map(({ bucketStartMs }) => bucketStartMs),
    questions.map(({ withinMs }) => withinMs ?? null),
  ]);
  const found: string[][] = questions.map(() => []);
  for (const { position, ids } of rows) found[position - 1]?.push(...unpackIds(ids));
  return found;
};

const reachedStatement = {
  name: 'find-model-time',
  text: `
    select max(stream_time) filter (where isfinite(stream_time)) as "reachedAt"
    from projection_checkpoint join projection_live using (projection, version)
    where projection = $1`,
};

/** The time of the newest event that a projection has passed; null when there is none. */
export const findModelTime = async (db: SqlRunner, projection: string): Promise<Date | null> => {
  const [row] = await db.execute<{ reachedAt: Date | null }>(reachedStatement, [projection]);
  return row?.reachedAt ?? null;
};
