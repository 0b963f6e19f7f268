import { Command, InvalidArgumentError, Option } from 'commander';
import { ghostSearchOf } from '../app/ghost-search.ts';
import { relayAdminOf } from '../app/relay-admin.ts';
import { OperatorError } from '../operator-error.ts';
import type { GhostEvent, PublishedEvent } from '../relay/ghosts/ghost-event.ts';
import { type GhostList, ghostRemedy } from '../relay/ghosts/list-ghosts.ts';
import { type SearchReport, searchTopics } from '../relay/ghosts/search-topics.ts';
import { type DismissReport, ghostListDefault, ghostListMax } from '../relay-admin/relay-admin.ts';
import { ago } from './ago.ts';
import { timeArgument } from './dlq-options.ts';
import { operatorHere } from './operator-here.ts';
import { searchProgress } from './search-progress.ts';
import { withDatabase, withServers } from './session.ts';
import { table } from './table.ts';

/** Exit code for a check that has found something. */
const foundSomething = 3;
const usage = 2;

interface GhostOptions {
  readonly limit: number;
  readonly scan?: boolean;
  readonly since?: Date;
  readonly dismiss?: boolean;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const limitArgument = (text: string): number => {
  const limit = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > ghostListMax) throw new InvalidArgumentError(`Allowed is 1 to ${ghostListMax}.`);
  return limit;
};

export const ghostsCommand = (): Command =>
  new Command('ghosts')
    .description(
      'List events that Kafka has and the journal has not, as after a failover of PostgreSQL; exits with 3 when there are some',
    )
    .option(
      '--limit <N>',
      'at most so many, in the order in which Kafka got them',
      limitArgument,
      ghostListDefault,
    )
    .option(
      '--scan',
      'look up all records of the topics in the journal first; needs the brokers and the registry',
    )
    .option(
      '--since <time>',
      'with --scan, only what Kafka got from then on: a time, or how long ago (90s, 15min, 2h, 3d)',
      timeArgument,
    )
    .addOption(
      new Option('--dismiss', 'say that what they did is mended: nobody is told of them any more').conflicts(
        'scan',
      ),
    )
    .option('--dry-run', 'with --dismiss, only say how many would be dismissed')
    .option('--json', 'as JSON')
    .action(async (options: GhostOptions) => {
      requireSense(options);
      if (options.dismiss) await dismiss(options);
      else await list(options);
    });

const requireSense = ({ scan, since, dismiss, dryRun }: GhostOptions): void => {
  const wrong = (message: string, remedy: string): never => {
    throw new OperatorError(message, { remedy, exitCode: usage });
  };
  if (since && !scan) wrong('--since says from when on to scan', 'Add --scan');
  if (dryRun && !dismiss)
    wrong('--dry-run is for --dismiss; nothing else is changed', 'Leave it out, or add --dismiss');
};

const print = (json: boolean | undefined, value: unknown, text: () => string): void =>
  console.log(json ? JSON.stringify(value, null, 2) : text());

const dismiss = async ({ dryRun = false, json }: GhostOptions): Promise<void> => {
  const report = await withDatabase(({ database, config }) =>
    relayAdminOf(database, config).dismissGhosts({ who: operatorHere(), dryRun }),
  );
  print(json, report, () => describeDismissal(report));
};

const describeDismissal = ({ dryRun, events }: DismissReport): string =>
  `${number(events)} events ${dryRun ? 'would be' : 'were'} dismissed.`;

const list = async ({ scan, since, limit, json }: GhostOptions): Promise<void> => {
  const { found, scanned } = scan
    ? await withServers('looking', async ({ adapters, config }) => {
        const report = await searchNow(ghostSearchOf(adapters, config), since);
        const admin = relayAdminOf(adapters.database, config);
        return { scanned: report, found: await admin.ghosts({ limit }) };
      })
    : await withDatabase(async ({ database, config }) => ({
        scanned: undefined,
        found: await relayAdminOf(database, config).ghosts({ limit }),
      }));
  print(json, { ...found, ...(scanned && { scanned }) }, () => describeGhosts(found, scanned, new Date()));
  if (found.events > 0) process.exitCode = foundSomething;
};

const searchNow = async (
  ports: Parameters<typeof searchTopics>[0],
  from: Date | undefined,
): Promise<SearchReport> => {
  const { onProgress, finish } = searchProgress(process.stderr);
  try {
    return await searchTopics(ports, { from, onProgress });
  } finally {
    finish();
  }
};

const number = (value: number): string => value.toLocaleString('en-US');

const describeScan = ({ records, unreadable, found }: SearchReport): string =>
  `${number(records)} records looked up: ${number(found)} more events that the journal does not have, ${number(unreadable)} records that could not be read.`;

export const describeGhosts = (
  { events, ghosts }: GhostList,
  scanned: SearchReport | undefined,
  now: Date,
): string =>
  [
    ...(scanned ? [describeScan(scanned)] : []),
    ...(events === 0
      ? ['The journal has every event that was looked up in it.']
      : [
          table([
            ['PUBLISHED', 'RECORD', 'AGGREGATE', 'TYPE', 'EVENT', 'NOW IN ITS PLACE'],
            ...ghosts.map((ghost) => rowOf(ghost, now)),
          ]),
          ...(ghosts.length < events
            ? [`The first ${number(ghosts.length)} of ${number(events)}; --limit shows more.`]
            : []),
          `${ghostRemedy}.`,
        ]),
  ].join('\n');

const rowOf = (ghost: GhostEvent, now: Date): readonly string[] => [
  ago(ghost.recordedAt, now),
  placeOf(ghost),
  `${ghost.aggregateType}/${ghost.aggregateId}@${ghost.aggregateVersion}`,
  ghost.eventType,
  ghost.eventId,
  ghost.replacedBy ?? '-',
];

const placeOf = ({ topic, partition, offset }: PublishedEvent): string => `${topic}/${partition}@${offset}`;
