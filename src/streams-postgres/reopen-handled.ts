import type { SqlRunner } from '../postgres/database.ts';
import type { Segment } from './store-handled.ts';

// Ids lie side by side, so they are cut out of the rows that have them. It is rare: a held record has failed.
const statement = {
  name: 'reopen-handled',
  text: `
    with reopened as materialized (
      select scope, bucket_start_ms, array_agg(uuid_send(id)) as ids
      from unnest($1::integer[], $2::bigint[], $3::uuid[]) as r(scope, bucket_start_ms, id)
      group by scope, bucket_start_ms
    )
    update projection_handled handled
    set ids = (
      select coalesce(string_agg(one.id, ''::bytea order by one.position), ''::bytea)
      from (
        select position, substring(handled.ids from position * 16 + 1 for 16) as id
        from generate_series(0, octet_length(handled.ids) / 16 - 1) position
      ) one
      where one.id <> all (reopened.ids)
    )
    from reopened
    where handled.scope = reopened.scope and handled.bucket_start_ms = reopened.bucket_start_ms
      and exists (
        select from generate_series(0, octet_length(handled.ids) / 16 - 1) position
        where substring(handled.ids from position * 16 + 1 for 16) = any (reopened.ids)
      )`,
};

/** Takes ids out of what was handled. */
export const reopenHandled = async (tx: SqlRunner, segments: readonly Segment[]): Promise<void> => {
  const ids = segments.flatMap(({ ids: own, ...at }) => own.map((id) => ({ ...at, id })));
  if (ids.length === 0) return;
  await tx.execute(statement, [
    ids.map(({ scope }) => scope),
    ids.map(({ bucketStartMs }) => bucketStartMs),
    ids.map(({ id }) => id),
  ]);
};
