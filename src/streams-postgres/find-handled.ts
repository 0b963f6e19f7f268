import type { SqlRunner } from '../postgres/database.ts';
import { unpackIds } from './packed-ids.ts';

/** What live builds are asked for. */
export interface HandledQuestion {
  readonly models: readonly string[];
  /** Events of one model and one stretch of event time; with `withinMs` only what batches that began so long ago or later did. */
  readonly stretches: readonly {
    readonly model: string;
    readonly bucketStartMs: number;
    readonly withinMs?: number;
  }[];
  /** Events that may be held back. */
  readonly awaited: readonly ModelEvent[];
}

interface ModelEvent {
  readonly model: string;
  readonly eventId: string;
}

export interface HandledAnswer {
  /** The live build of each model; one that nobody has ever run has none. */
  readonly builds: ReadonlyMap<string, number>;
  /** In the order of the stretches. */
  readonly found: readonly { readonly handled: string[]; readonly missed: string[] }[];
  /** Those of the awaited events that a step keeps until an earlier one of their key has come. */
  readonly held: readonly ModelEvent[];
}

// One statement, so that all of it is as of one moment: an event that is handled and held must not be seen as handled alone,
// and ids of one build not be taken for those of another. A commit may be slower to end than to begin: who asks for the newest
// only has to ask for all of it now and then. Keys that hold something are few and have an index of their own.
const statement = {
  name: 'find-handled',
  text: `
    with live as materialized (
      select projection, version from projection_live where projection = any ($1::text[])
    )
    select 'build' as kind, projection, version, null::bigint as position, null::bytea as ids, null::bytea as "missedIds",
           null::text as "eventId"
    from live
    union all
    select 'handled', null, null, asked.position, handled.ids, handled.late_ids, null
    from unnest($2::text[], $3::bigint[], $4::float8[]) with ordinality
      as asked(projection, bucket_start_ms, within_ms, position)
    join live using (projection)
    join projection_scope scope using (projection, version)
    cross join lateral (
      select h.ids, h.late_ids from projection_handled h
      where h.scope = scope.id and h.bucket_start_ms = asked.bucket_start_ms
        and h.handled_at >= coalesce(now() - asked.within_ms * interval '1 millisecond', '-infinity')
      offset 0
    ) handled
    union all
    select 'held', live.projection, null, null, null, null, held.record ->> 'id'
    from live
    join projection_state waiting on waiting.projection = live.projection and waiting.version = live.version
      and jsonb_path_exists(waiting.value, '$.held[0]')
    cross join lateral jsonb_path_query(waiting.value, '$.held[*]') as held(record)
    where (live.projection, held.record ->> 'id') in (select * from unnest($5::text[], $6::text[]))`,
};

type FoundRow =
  | { readonly kind: 'build'; readonly projection: string; readonly version: number }
  | {
      readonly kind: 'handled';
      readonly position: number;
      readonly ids: Buffer;
      readonly missedIds: Buffer | null;
    }
  | { readonly kind: 'held'; readonly projection: string; readonly eventId: string };

/** What has become of events in the live builds, in one query. */
export const findHandled = async (
  db: SqlRunner,
  { models, stretches, awaited }: HandledQuestion,
): Promise<HandledAnswer> => {
  const rows = await db.execute<FoundRow>(statement, [
    models,
    stretches.map(({ model }) => model),
    stretches.map(({ bucketStartMs }) => bucketStartMs),
    stretches.map(({ withinMs }) => withinMs ?? null),
    awaited.map(({ model }) => model),
    awaited.map(({ eventId }) => eventId),
  ]);
  const builds = new Map<string, number>();
  const found = stretches.map(() => ({ handled: [] as string[], missed: [] as string[] }));
  const held: ModelEvent[] = [];
  for (const row of rows) {
    if (row.kind === 'build') builds.set(row.projection, row.version);
    else if (row.kind === 'held') held.push({ model: row.projection, eventId: row.eventId });
    else {
      const stretch = found[row.position - 1];
      stretch?.handled.push(...unpackIds(row.ids));
      if (row.missedIds) stretch?.missed.push(...unpackIds(row.missedIds));
    }
  }
  return { builds, found, held };
};

/** How far a projection is. */
export interface ModelProgress {
  /** The time of the newest event that it has passed; null when there is none. */
  readonly reachedAt: Date | null;
  /** When an operator paused it; null when it is not paused. */
  readonly pausedSince: Date | null;
}

const progressStatement = {
  name: 'find-model-progress',
  text: `
    select max(stream_time) filter (where isfinite(stream_time)) as "reachedAt",
           (select paused_at from projection_pause where projection = $1) as "pausedSince"
    from projection_checkpoint join projection_live using (projection, version)
    where projection = $1`,
};

export const findModelProgress = async (db: SqlRunner, projection: string): Promise<ModelProgress> => {
  const [row] = await db.execute<ModelProgress>(progressStatement, [projection]);
  return row ?? { reachedAt: null, pausedSince: null };
};
