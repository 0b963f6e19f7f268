import { writeAudit } from '../operator-audit/write-audit.ts';
import { OperatorError } from '../operator-error.ts';
import type { Database } from '../postgres/database.ts';
import {
  listPauses,
  type ProjectionPause,
  pauseProjection,
  resumeProjection,
} from '../streams-postgres/pauses/projection-pause.ts';
import { waitForCommits } from '../streams-postgres/pauses/wait-for-commits.ts';

export interface ProjectionState {
  readonly name: string;
  /** Null unless an operator holds it still. */
  readonly pause: ProjectionPause | null;
}

export interface PauseProjectionReport {
  readonly projection: string;
  readonly dryRun: boolean;
  /** False when it was paused already; then the first one's word stands. */
  readonly changed: boolean;
  /** Null in a dry run that would change something. */
  readonly pause: ProjectionPause | null;
  /** A batch that was being committed when the pause came, and may still be. */
  readonly stillCommitting: boolean;
}

export interface ResumeProjectionReport {
  readonly projection: string;
  readonly dryRun: boolean;
  /** The pause that is over, or would be; null when there was none. */
  readonly ended: ProjectionPause | null;
}

/** What an operator can tell projections, from the command line and over HTTP alike. */
export interface ProjectionAdmin {
  list(): Promise<readonly ProjectionState[]>;
  /** Nothing of it is committed any more when this comes back, unless the report says otherwise. */
  pause(
    projection: string,
    options: { readonly who: string; readonly because: string | null; readonly dryRun: boolean },
  ): Promise<PauseProjectionReport>;
  resume(
    projection: string,
    options: { readonly who: string; readonly dryRun: boolean },
  ): Promise<ResumeProjectionReport>;
}

/** A pause for a name that nobody has would be believed to hold something. */
export class UnknownProjection extends OperatorError {
  constructor(name: string, known: readonly string[]) {
    super(`There is no projection ${name}`, {
      remedy: `It is one of ${known.join(', ')}`,
      exitCode: 2,
    });
  }
}

export const createProjectionAdmin = (database: Database, names: readonly string[]): ProjectionAdmin => {
  const requireKnown = (projection: string, known: readonly string[]): void => {
    if (!known.includes(projection)) throw new UnknownProjection(projection, known);
  };
  return {
    list: async () => {
      const pauses = await listPauses(database);
      return allNames(names, pauses).map((name) => ({ name, pause: pauses.get(name) ?? null }));
    },

    pause: async (projection, { who, because, dryRun }) => {
      requireKnown(projection, names);
      const report = await database.transaction(async (tx) => {
        const before = (await listPauses(tx)).get(projection);
        if (before || dryRun) return { changed: !before, pause: before ?? null };
        const changed = await pauseProjection(tx, projection, { by: who, because });
        if (changed)
          await writeAudit(tx, { who, action: 'projections.pause', target: { projection, because } });
        return { changed, pause: (await listPauses(tx)).get(projection) ?? null };
      });
      const stillCommitting = !dryRun && !(await waitForCommits(database, projection));
      return { projection, dryRun, ...report, stillCommitting };
    },

    resume: (projection, { who, dryRun }) =>
      database.transaction(async (tx) => {
        const pauses = await listPauses(tx);
        requireKnown(projection, allNames(names, pauses));
        if (dryRun) return { projection, dryRun, ended: pauses.get(projection) ?? null };
        const ended = await resumeProjection(tx, projection);
        if (ended)
          await writeAudit(tx, { who, action: 'projections.resume', target: { projection, pause: ended } });
        return { projection, dryRun, ended };
      }),
  };
};

/** One that was paused and is no longer in the program can be resumed all the same. */
const allNames = (
  names: readonly string[],
  pauses: ReadonlyMap<string, ProjectionPause>,
): readonly string[] => [...new Set([...names, ...pauses.keys()])];
