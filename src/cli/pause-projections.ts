import { Command } from 'commander';
import { projectionAdminOf } from '../app/projection-admin.ts';
import { OperatorError } from '../operator-error.ts';
import {
  type PauseProjectionReport,
  type ProjectionAdmin,
  type ResumeProjectionReport,
  UnknownProjection,
} from '../projection-admin/projection-admin.ts';
import { operatorHere } from './operator-here.ts';
import { reasonArgument } from './relay.ts';
import { withDatabase } from './session.ts';

interface Options {
  readonly all?: boolean;
  readonly reason?: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

export const pauseProjectionsCommand = (): Command =>
  new Command('pause')
    .description(
      'Hold projections still in every process until resume, also over restarts: they read and commit nothing; everything else goes on',
    )
    .argument('[projections...]', 'as millrace topologies list names them')
    .option('--all', 'every projection')
    .option('--reason <text>', 'why, for whoever wonders', reasonArgument)
    .option('--dry-run', 'only say what would be paused')
    .option('--json', 'as JSON')
    .action((names: readonly string[], { reason, dryRun = false, ...options }: Options) =>
      forEach(names, options, {
        act: (admin, name) => admin.pause(name, { who: operatorHere(), because: reason ?? null, dryRun }),
        describe: describePaused,
      }),
    );

export const resumeProjectionsCommand = (): Command =>
  new Command('resume')
    .description('Let paused projections go on where they stood, within about a second')
    .argument('[projections...]', 'as millrace topologies list names them')
    .option('--all', 'every projection that is paused')
    .option('--dry-run', 'only say what would go on')
    .option('--json', 'as JSON')
    .action((names: readonly string[], { dryRun = false, ...options }: Options) =>
      forEach(names, options, {
        act: (admin, name) => admin.resume(name, { who: operatorHere(), dryRun }),
        describe: describeResumed,
      }),
    );

interface Act<Report> {
  readonly act: (admin: ProjectionAdmin, name: string) => Promise<Report>;
  readonly describe: (report: Report, retentionDays: number) => string;
}

const dayMs = 86_400_000;

const forEach = async <Report>(
  names: readonly string[],
  { all, json }: Options,
  { act, describe }: Act<Report>,
): Promise<void> => {
  if ((names.length === 0) === (all !== true))
    throw new OperatorError('Say which projections are meant', {
      remedy: 'Name one or more, or use --all',
      exitCode: 2,
    });
  await withDatabase(async ({ database, config }) => {
    const admin = projectionAdminOf(database, config);
    const known = (await admin.list()).map(({ name }) => name);
    const chosen = all ? known : [...new Set(names)];
    // A mistyped name is noticed before anything is changed.
    const unknown = chosen.find((name) => !known.includes(name));
    if (unknown !== undefined) throw new UnknownProjection(unknown, known);
    const reports: Report[] = [];
    for (const name of chosen) reports.push(await act(admin, name));
    const retentionDays = config.topics.retentionMs / dayMs;
    const text = (): string => reports.map((report) => describe(report, retentionDays)).join('\n');
    console.log(json ? JSON.stringify(reports, null, 2) : text());
  });
};

const describePaused = (report: PauseProjectionReport, retentionDays: number): string => {
  const { projection, dryRun, changed, pause, stillCommitting } = report;
  if (!changed && pause) return `${projection} was paused already, by ${pauseText(pause)}.`;
  if (dryRun) return `${projection} would be paused.`;
  const kept = `Kafka keeps what waits for ${Number(retentionDays.toFixed(1))} days; let it go on before with npx millrace topologies resume ${projection}.`;
  return [
    `${projection} is paused. ${kept}`,
    ...(stillCommitting ? [`${projection} may still commit the batch that it had begun.`] : []),
  ].join('\n');
};

const describeResumed = ({ projection, dryRun, ended }: ResumeProjectionReport): string => {
  if (!ended) return `${projection} was not paused.`;
  const before = `It was paused by ${pauseText(ended)}.`;
  return dryRun ? `${projection} would go on. ${before}` : `${projection} goes on. ${before}`;
};

const pauseText = ({ by, since, because }: NonNullable<PauseProjectionReport['pause']>): string =>
  `${by} at ${since.toISOString()}${because ? `: ${because}` : ''}`;
