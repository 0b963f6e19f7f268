import type { SqlRunner } from '../../postgres/database.ts';

/** Somebody holds a projection still until further notice. */
export interface ProjectionPause {
  readonly by: string;
  readonly since: Date;
  readonly because: string | null;
}

const pauseStatement = {
  name: 'pause-projection',
  text: `
    insert into projection_pause (projection, paused_by, reason) values ($1, $2, $3)
    on conflict do nothing
    returning projection`,
};

/** False when it was paused already: the first one's word stands. */
export const pauseProjection = async (
  tx: SqlRunner,
  projection: string,
  { by, because }: Pick<ProjectionPause, 'by' | 'because'>,
): Promise<boolean> => (await tx.execute(pauseStatement, [projection, by, because])).length > 0;

const resumeStatement = {
  name: 'resume-projection',
  text: `
    delete from projection_pause where projection = $1
    returning paused_by as by, paused_at as since, reason as because`,
};

/** The pause that is over; null when there was none. */
export const resumeProjection = async (
  tx: SqlRunner,
  projection: string,
): Promise<ProjectionPause | null> => {
  const [ended] = await tx.execute<ProjectionPause>(resumeStatement, [projection]);
  return ended ?? null;
};

const listStatement = {
  name: 'list-projection-pauses',
  text: `
    select projection, paused_by as by, paused_at as since, reason as because
    from projection_pause order by projection`,
};

/** Every projection that is paused, by name. */
export const listPauses = async (db: SqlRunner): Promise<ReadonlyMap<string, ProjectionPause>> => {
  const rows = await db.execute<ProjectionPause & { projection: string }>(listStatement);
  return new Map(rows.map(({ projection, ...pause }) => [projection, pause]));
};

/** In words, after the name of the projection. */
export const describePause = ({ by, since, because }: ProjectionPause): string =>
  `paused by ${by} since ${since.toISOString()}${because ? ` (${because})` : ''}`;

/** What lets it go on. */
export const resumeCommand = (projection: string): string => `npx millrace topologies resume ${projection}`;
