import type { SqlRunner } from '../../postgres/database.ts';
import type { ProjectionId } from '../../streams/ports.ts';
import type { ProjectionPause } from '../pauses/projection-pause.ts';

/** The build that queries see. */
export interface LiveBuild {
  /** Under which checkpoints and the rest are kept. */
  readonly version: number;
  /** Of the definition that fills it. */
  readonly definitionVersion: number;
  /** How often topics have got partitions: whoever runs the build reads other partitions when it changes. */
  readonly topicGrowths: number;
  /** Null unless an operator holds the projection still. */
  readonly pause: ProjectionPause | null;
}

const findStatement = {
  name: 'find-live-build',
  text: `
    select version, definition_version as "definitionVersion",
           (select count(*) from topic_growth) as "topicGrowths",
           paused_by as by, paused_at as since, reason as because
    from projection_live left join projection_pause using (projection)
    where projection = $1`,
};

interface LiveRow extends Omit<LiveBuild, 'pause'> {
  readonly by: string | null;
  readonly since: Date | null;
  readonly because: string | null;
}

export const findLiveBuild = async (db: SqlRunner, projection: string): Promise<LiveBuild | undefined> => {
  const [row] = await db.execute<LiveRow>(findStatement, [projection]);
  if (!row) return undefined;
  const { by, since, because, ...live } = row;
  return { ...live, pause: by === null || since === null ? null : { by, since, because } };
};

const openStatement = {
  name: 'open-first-build',
  text: `
    insert into projection_build (projection, version, definition_version, status, live_at)
    values ($1, $2, $2, 'live', clock_timestamp())
    on conflict do nothing`,
};

/** The live build of a projection; one that nobody has ever run gets its first. */
export const openLiveBuild = async (db: SqlRunner, { name, version }: ProjectionId): Promise<LiveBuild> => {
  const known = await findLiveBuild(db, name);
  if (known) return known;
  await db.execute(openStatement, [name, version]);
  const live = await findLiveBuild(db, name);
  if (!live) throw new Error(`${name} has no live build`);
  return live;
};
