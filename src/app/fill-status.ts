import type { SqlRunner } from '../postgres/database.ts';

/** A read model that is being filled beside the live one, or waits for it. */
export interface FillStatus {
  readonly projection: string;
  /** Nothing is in the live model until it is filled. */
  readonly liveIsEmpty: boolean;
  /** Null while nobody has begun. */
  readonly build: number | null;
  readonly phase: 'replay' | 'catch-up' | null;
  /** Of the journal, between 0 and 1; null where nobody can tell. */
  readonly fraction: number | null;
  readonly startedAt: Date | null;
  /** When it last came further. */
  readonly movedAt: Date | null;
}

// While the journal is replayed, a build's checkpoints are ids of it.
const statement = {
  name: 'status-fills',
  text: `
    select live.projection, live.awaits_fill as "liveIsEmpty", b.version as build, b.phase, b.started_at as "startedAt",
           case when b.phase = 'replay' and b.from_snapshot::text = '1:1:'
             then least(1, greatest(0, min(c.next_offset) - 1) / greatest(1, (select max(id) from outbox))::float8) end as fraction,
           max(c.moved_at) as "movedAt"
    from projection_build live
    left join projection_build b on b.projection = live.projection and b.status = 'building'
    left join projection_checkpoint c on c.projection = b.projection and c.version = b.version
    where live.status = 'live' and (live.awaits_fill or b.version is not null)
    group by live.projection, live.awaits_fill, b.version, b.phase, b.started_at, b.from_snapshot::text
    order by live.projection`,
};

export const readFills = (db: SqlRunner): Promise<readonly FillStatus[]> => db.execute<FillStatus>(statement);
