import { Command, Option } from 'commander';
import { deadLetterAdminOf, deadLetterTopics } from '../app/dead-letter-admin.ts';
import {
  type DropAnswer,
  dropAnswer,
  listAnswer,
  type ReplayAnswer,
  replayAnswer,
  shownAnswer,
  statsAnswer,
} from '../dlq-admin/answers.ts';
import type { Busy, DeadLetterAdmin, DropReport, ReplayReport } from '../dlq-admin/dlq-admin.ts';
import { lettersMax, listLimitDefault } from '../dlq-admin/letter-filter.ts';
import type { LetterTopics } from '../dlq-admin/letter-id.ts';
import { OperatorError } from '../operator-error.ts';
import {
  type FilterOptions,
  filterOf,
  letterOf,
  limitArgument,
  selectionOf,
  versionArgument,
  withFilterOptions,
} from './dlq-options.ts';
import {
  describeChange,
  describeLetters,
  describeShownLetter,
  describeSkip,
  describeStats,
} from './dlq-tables.ts';
import { letterProgress } from './letter-progress.ts';
import { operatorHere } from './operator-here.ts';
import { readConfig, withServers } from './session.ts';

/** Exit code for a check that has found something. */
const foundSomething = 3;

export const dlqCommand = (): Command =>
  new Command('dlq')
    .description('Dead letters: records that projections could not process, why, and what to do about them')
    .addCommand(listCommand())
    .addCommand(showCommand())
    .addCommand(statsCommand())
    .addCommand(replayCommand())
    .addCommand(dropCommand())
    .addCommand(skipVersionCommand());

const onLetters = <T>(
  kind: 'looking' | 'working',
  routine: (admin: DeadLetterAdmin) => Promise<T>,
): Promise<T> => withServers(kind, ({ adapters, config }) => routine(deadLetterAdminOf(adapters, config)));

/** Known before any server is asked, so that a mistake in the arguments is heard of first. */
const topicsHere = (): LetterTopics => deadLetterTopics(readConfig().config);

const print = (json: boolean | undefined, value: unknown, text: () => string): void =>
  console.log(json ? JSON.stringify(value, null, 2) : text());

const progress = () => letterProgress(process.stderr);

interface ListOptions extends FilterOptions {
  readonly limit: number;
  readonly all?: boolean;
  readonly json?: boolean;
}

const listCommand = (): Command =>
  withFilterOptions(new Command('list').description('Open dead letters, topic by topic, the oldest first'))
    .option('--limit <N>', 'at most so many', limitArgument, listLimitDefault)
    .option('--all', 'also those that were replayed or dropped')
    .option('--json', 'as JSON')
    .action(async ({ limit, all = false, json, ...options }: ListOptions) => {
      const topics = topicsHere();
      const request = { ...filterOf(topics, options), limit, all };
      const list = await onLetters('looking', (admin) => admin.list(request, { onProgress: progress() }));
      const answer = listAnswer(topics, list);
      print(json, answer, () => describeLetters(answer, { all, now: new Date() }));
    });

const showCommand = (): Command =>
  new Command('show')
    .description('One dead letter: its cause, its record decoded as far as that is possible, and its history')
    .argument('<id>', 'as list tells it, such as like-events@17')
    .option('--json', 'as JSON')
    .action(async (id: string, { json }: { json?: boolean }) => {
      const topics = topicsHere();
      const place = letterOf(topics, id);
      const shown = await onLetters('looking', (admin) => admin.show(place));
      if (!shown) {
        throw new OperatorError(`There is no dead letter ${id}, or not any more`, {
          remedy: 'millrace dlq list --all names those that there are',
        });
      }
      const answer = shownAnswer(topics, shown);
      print(json, answer, () => describeShownLetter(answer, new Date()));
    });

interface StatsOptions extends FilterOptions {
  readonly all?: boolean;
  readonly exitCode?: boolean;
  readonly json?: boolean;
}

const statsCommand = (): Command =>
  withFilterOptions(
    new Command('stats').description('Open dead letters counted by topic, projection and cause'),
  )
    .option('--all', 'also those that were replayed or dropped')
    .option('--exit-code', 'exit with 3 when there is one')
    .option('--json', 'as JSON')
    .action(async ({ all = false, exitCode, json, ...options }: StatsOptions) => {
      const topics = topicsHere();
      const request = { ...filterOf(topics, options), all };
      const stats = await onLetters('looking', (admin) => admin.stats(request, { onProgress: progress() }));
      const answer = statsAnswer(topics, stats);
      print(json, answer, () => describeStats(answer, new Date()));
      if (exitCode && answer.letters > 0) process.exitCode = foundSomething;
    });

interface ChangeOptions extends FilterOptions {
  readonly limit?: number;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const withChangeOptions = (command: Command): Command =>
  withFilterOptions(command.argument('[ids...]', 'as list tells them, such as like-events@17'))
    .option('--limit <N>', `with a filter, at most so many; ${lettersMax} unless told`, limitArgument)
    .addOption(new Option('--yes', 'with a filter or a key: do it').conflicts('dryRun'))
    .option('--dry-run', 'only say what would be done, which is what a filter or a key does without --yes')
    .option('--json', 'as JSON');

const changeOf = (ids: readonly string[], options: ChangeOptions) => {
  const topics = topicsHere();
  const selection = selectionOf(topics, ids, options);
  const isMeant = selection.by === 'ids' || options.yes === true;
  return {
    topics,
    selection,
    change: { who: operatorHere(), dryRun: options.dryRun === true || !isMeant, onProgress: progress() },
  };
};

const replayCommand = (): Command =>
  withChangeOptions(
    new Command('replay').description(
      'Send the records of dead letters again, to the topic and partition they came from; --key sends a whole key in order',
    ),
  )
    .option('--force', 'also more often than DLQ_REPLAYS_MAX allows, and what was decided about before')
    .action(async (ids: readonly string[], options: ChangeOptions & { readonly force?: boolean }) => {
      const { topics, selection, change } = changeOf(ids, options);
      const report = await onLetters('working', (admin) =>
        admin.replay(selection, { ...change, force: options.force ?? false }),
      );
      const answer = replayAnswer(topics, unlessBusy(report));
      print(options.json, answer, () => describeChange(answer, { byIds: ids.length > 0 }));
      failIfNothingWasDone(answer);
    });

const dropCommand = (): Command =>
  withChangeOptions(
    new Command('drop').description(
      'Give dead letters up: they are not shown any more, and their keys go on',
    ),
  ).action(async (ids: readonly string[], options: ChangeOptions) => {
    const { topics, selection, change } = changeOf(ids, options);
    const report = await onLetters('working', (admin) => admin.drop(selection, change));
    const answer = dropAnswer(topics, unlessBusy(report));
    print(options.json, answer, () => describeChange(answer, { byIds: ids.length > 0 }));
    failIfNothingWasDone(answer);
  });

interface SkipOptions {
  readonly step?: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const skipVersionCommand = (): Command =>
  new Command('skip-version')
    .description(
      'Tell a projection that a version of a key will never come: the later ones that it holds go on without it',
    )
    .argument('<projection>', 'the one that waits, such as order-view')
    .argument('<key>', 'as millrace status tells it')
    .argument('[version]', 'the one that is missing now, unless told', versionArgument)
    .option('--step <name>', 'where several steps of the projection wait for versions')
    .option('--dry-run', 'only say what would be done')
    .option('--json', 'as JSON')
    .action(async (projection: string, key: string, version: number | undefined, options: SkipOptions) => {
      const { step, dryRun = false, json } = options;
      const report = await onLetters('working', (admin) =>
        admin.skipVersion({ projection, key, version, step }, { who: operatorHere(), dryRun }),
      );
      print(json, report, () => describeSkip(report, { projection, key }));
      if (report.outcome === 'refused') process.exitCode = 1;
    });

const unlessBusy = <Report extends ReplayReport | DropReport>(report: Report | Busy): Report => {
  if (report.outcome !== 'busy') return report as Report;
  throw new OperatorError('Somebody else is replaying or dropping dead letters', {
    remedy: 'Only one can at a time; try again when that is done',
  });
};

const failIfNothingWasDone = ({ outcome, letters, refused }: ReplayAnswer | DropAnswer): void => {
  if (outcome === 'refused' || (refused.length > 0 && letters.length === 0)) process.exitCode = 1;
};
