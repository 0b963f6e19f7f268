import { setTimeout as sleep } from 'node:timers/promises';
import { Command, InvalidArgumentError } from 'commander';
import { relayAdminOf } from '../app/relay-admin.ts';
import type { ReshardReport } from '../relay/reshard.ts';
import {
  type PauseReport,
  type RelayAdmin,
  type ResumeReport,
  type ResyncReport,
  shardsMax,
  type UseWalReport,
} from '../relay-admin/relay-admin.ts';
import { ghostsCommand } from './ghosts.ts';
import { operatorHere } from './operator-here.ts';
import { relayPicture } from './relay-picture.ts';
import { withDatabase } from './session.ts';

/** Exit code for a check that has found something. */
const foundSomething = 3;

export const relayCommand = (): Command =>
  new Command('relay')
    .description(
      'The relay from the outbox to Kafka; all of it but ghosts --scan works while the brokers do not',
    )
    .addCommand(statusCommand())
    .addCommand(pauseCommand())
    .addCommand(resumeCommand())
    .addCommand(resyncCommand())
    .addCommand(reshardCommand())
    .addCommand(useWalCommand())
    .addCommand(ghostsCommand());

const onRelay = <T>(routine: (relay: RelayAdmin) => Promise<T>): Promise<T> =>
  withDatabase(({ database, config }) => routine(relayAdminOf(database, config)));

const print = (json: boolean | undefined, value: unknown, text: () => string): void =>
  console.log(json ? JSON.stringify(value, null, 2) : text());

const statusCommand = (): Command =>
  new Command('status')
    .description('Who relays, how far it is, what waits, and why it is late')
    .option('--check', 'exit with 3 when events are late, or Kafka has events that the journal does not have')
    .option('--json', 'as JSON')
    .action(({ json, check }: { json?: boolean; check?: boolean }) =>
      onRelay(async (relay) => {
        const status = await relay.status();
        print(json, status, () => relayPicture(status, new Date()).join('\n'));
        if (check && (status.late.length > 0 || status.ghosts.events > 0)) process.exitCode = foundSomething;
      }),
    );

/** A relay finishes its page before it stops; this is how long it is waited for before it is only told of. */
const giveBackWaitMaxMs = 10_000;
const giveBackPollMs = 100;

export const reasonArgument = (text: string): string => {
  if (text.trim() === '' || text.length > 500)
    throw new InvalidArgumentError('It must be 1 to 500 characters.');
  return text;
};

const pauseCommand = (): Command =>
  new Command('pause')
    .description(
      'Stop publishing in every process until resume; commands go on, events wait, nothing is lost',
    )
    .option('--reason <text>', 'why, for whoever wonders', reasonArgument)
    .option('--no-wait', 'do not wait for the relays to finish what they have begun')
    .option('--json', 'as JSON')
    .action(({ reason, wait, json }: { reason?: string; wait: boolean; json?: boolean }) =>
      onRelay(async (relay) => {
        const asked = await relay.pause({ who: operatorHere(), because: reason ?? null });
        const report = wait ? await afterGivingBack(relay, asked) : asked;
        print(json, report, () => describePause(report));
      }),
    );

const afterGivingBack = async (relay: RelayAdmin, asked: PauseReport): Promise<PauseReport> => {
  const deadline = Date.now() + giveBackWaitMaxMs;
  let { stillRelaying } = asked;
  while (stillRelaying.length > 0 && Date.now() < deadline) {
    await sleep(giveBackPollMs);
    stillRelaying = await relay.relaying();
  }
  return { ...asked, stillRelaying };
};

const describePause = ({ changed, pause, stillRelaying }: PauseReport): string =>
  [
    changed
      ? 'The relay is paused. Let it go on with npx millrace relay resume.'
      : `The relay was paused already, by ${pause.by} at ${pause.since.toISOString()}${pause.because ? `: ${pause.because}` : ''}.`,
    ...stillRelaying.map(
      ({ name, holder, until }) =>
        `${holder} still finishes what it has begun (${name}); unless it gives its lease back before, that ends at ${until.toISOString()}.`,
    ),
  ].join('\n');

const resumeCommand = (): Command =>
  new Command('resume')
    .description('Let the relays go on, at once')
    .option('--json', 'as JSON')
    .action(({ json }: { json?: boolean }) =>
      onRelay(async (relay) => {
        const report = await relay.resume({ who: operatorHere() });
        print(json, report, () => describeResume(report));
      }),
    );

const describeResume = ({ ended }: ResumeReport): string =>
  ended
    ? `The relay goes on. It was paused by ${ended.by} at ${ended.since.toISOString()}${ended.because ? `: ${ended.because}` : ''}.`
    : 'The relay was not paused.';

const positiveInteger = (text: string): number => {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : 0;
  if (value < 1) throw new InvalidArgumentError('It must be a whole number from 1 on.');
  return value;
};

const resyncCommand = (): Command =>
  new Command('resync')
    .description(
      'Publish everything from an id on again, as after a restore from a dump; consumers drop what they have',
    )
    .requiredOption(
      '--from-id <id>',
      'first outbox id to publish again; what lies before counts as published',
      positiveInteger,
    )
    .option('--dry-run', 'only say what would be published again')
    .option('--json', 'as JSON')
    .action(({ fromId, dryRun, json }: { fromId: number; dryRun?: boolean; json?: boolean }) =>
      onRelay(async (relay) => {
        const report = await relay.resync(fromId, { who: operatorHere(), dryRun: dryRun ?? false });
        print(json, report, () => describeResync(report));
      }),
    );

const describeResync = ({ dryRun, fromId, rows, firstId, lastId }: ResyncReport): string =>
  `${rows} events from id ${firstId ?? fromId} to ${lastId ?? 'the end'} ${dryRun ? 'would be' : 'will be'} published again.`;

const shardCount = (text: string): number => {
  const value = positiveInteger(text);
  if (value > shardsMax) throw new InvalidArgumentError(`There can be ${shardsMax} at most.`);
  return value;
};

const reshardCommand = (): Command =>
  new Command('reshard')
    .description(
      'Change how many relays can be at work at once, while they run; nothing is lost or out of order',
    )
    .argument('<shards>', 'how many shards the journal is divided into', shardCount)
    .option('--dry-run', 'only say what would happen')
    .option('--json', 'as JSON')
    .action((shards: number, { dryRun = false, json }: { dryRun?: boolean; json?: boolean }) =>
      onRelay(async (relay) => {
        const report = await relay.reshard(shards, { who: operatorHere(), dryRun });
        print(json, { dryRun, ...report }, () => describeReshard(report, dryRun));
      }),
    );

const describeReshard = ({ from, to, cursor, repeated }: ReshardReport, dryRun: boolean): string => {
  if (!cursor) return `The number of shards is ${to} already.`;
  const events = repeated === 1 ? '1 event is' : `${repeated} events are`;
  const again = `${events} published again, because some shards are ahead of others; consumers drop what they have had.`;
  const changes = dryRun ? `${from} shards would become ${to}` : `${from} shards have become ${to}`;
  const start = `all of which begin at ${cursor.from} → ${cursor.to}, last id ${cursor.lastId}.`;
  return `${changes}, ${start}${repeated > 0 ? ` ${again}` : ''}`;
};

const useWalCommand = (): Command =>
  new Command('use-wal')
    .description(
      'Read the write-ahead log again after its replication slot was lost; relays with RELAY_SOURCE=wal make a new slot',
    )
    .option('--json', 'as JSON')
    .action(({ json }: { json?: boolean }) =>
      onRelay(async (relay) => {
        const report = await relay.useWal({ who: operatorHere() });
        print(json, report, () => describeUseWal(report));
      }),
    );

const describeUseWal = ({ ended }: UseWalReport): string =>
  ended
    ? `Relays with RELAY_SOURCE=wal make a new replication slot and read the write-ahead log again. They read by snapshots since ${ended.since.toISOString()}: ${ended.reason}.`
    : 'The relay has not lost its replication slot; nothing was changed.';
