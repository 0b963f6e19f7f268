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
  /** How often checkpoints were moved by somebody else: whoever runs the build begins anew at them. */
  readonly checkpointResets: number;
  /** Nothing is in it, and it is not to be run: one that is filled from the journal takes its place. */
  readonly awaitsFill: boolean;
  /** Null unless an operator holds the projection still. */
  readonly pause: ProjectionPause | null;
}

const findStatement = {
  name: 'find-live-build',
  text: `
    select version, definition_version as "definitionVersion",
           (select count(*) from topic_growth) as "topicGrowths",
           checkpoint_resets as "checkpointResets", awaits_fill as "awaitsFill",
           paused_by as by, paused_at as since, reason as because
    from projection_build left join projection_pause using (projection)
    where projection = $1 and status = 'live'`,
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

const insertStatement = {
  name: 'insert-first-build',
  text: `
    insert into projection_build (projection, version, definition_version, status, live_at, awaits_fill)
    values ($1, $2, $2, 'live', clock_timestamp(), $3)
    on conflict do nothing
    returning true`,
};

/** The first build of a projection that nobody has ever run; false when somebody else was faster. */
export const insertFirstBuild = async (
  db: SqlRunner,
  { name, version }: ProjectionId,
  { awaitsFill }: { readonly awaitsFill: boolean },
): Promise<boolean> => (await db.execute(insertStatement, [name, version, awaitsFill])).length > 0;

/** The live build of a projection; one that nobody has ever run gets its first. */
export const openLiveBuild = async (
  db: SqlRunner,
  projection: ProjectionId,
  options = { awaitsFill: false },
): Promise<LiveBuild> => {
  const known = await findLiveBuild(db, projection.name);
  if (known) return known;
  await insertFirstBuild(db, projection, options);
  const live = await findLiveBuild(db, projection.name);
  if (!live) throw new Error(`${projection.name} has no live build`);
  return live;
};
