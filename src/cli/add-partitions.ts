import { Command, InvalidArgumentError, Option } from 'commander';
import { addPlannedPartitions } from '../app/add-partitions.ts';
import { OperatorError } from '../operator-error.ts';
import type { AddPartitionsReport } from '../topics-admin/add-partitions.ts';
import { operatorHere } from './operator-here.ts';
import { withServers } from './session.ts';
import { stopReason } from './stop-reason.ts';
import { table } from './table.ts';

interface Options {
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly force?: boolean;
  readonly wait: number;
  readonly json?: boolean;
}

const secondsMax = 3600;
const secondsArgument = (text: string): number => {
  const value = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > secondsMax) throw new InvalidArgumentError(`Allowed is 1 to ${secondsMax}.`);
  return value;
};

/** Waiting that takes longer is told, and then now and then. */
const quietMs = 2000;

const createProgress = (): ((text: string) => void) => {
  let nextMs = Date.now() + quietMs;
  return (text) => {
    if (Date.now() < nextMs) return;
    nextMs = Date.now() + quietMs;
    process.stderr.write(`${text}\n`);
  };
};

export const addPartitionsCommand = (): Command =>
  new Command('add-partitions')
    .description(
      'Bring topics to TOPIC_PARTITIONS while the system runs: pause the relay, wait until projections have applied everything, add the partitions, move what is kept by key, resume. Also finishes what was broken off, and takes over partitions that were added by other means',
    )
    .option('--dry-run', 'only say what would change; so it is without --yes')
    .addOption(new Option('--yes', 'do it').conflicts('dryRun'))
    .option('--force', 'although projections are behind: events of a key may be applied out of order')
    .option(
      '--wait <seconds>',
      'how long relays and projections may take to finish what is on its way',
      secondsArgument,
      60,
    )
    .option('--json', 'as JSON')
    .action(({ yes = false, force = false, wait, json }: Options) =>
      withServers('looking', async ({ adapters, config }) => {
        const stop = stopReason();
        try {
          const report = await addPlannedPartitions(adapters, config, {
            dryRun: !yes,
            force,
            waitMaxMs: wait * 1000,
            who: operatorHere(),
            onProgress: createProgress(),
            signal: stop.signal,
          });
          console.log(json ? JSON.stringify(report, null, 2) : describe(report));
        } catch (error) {
          if (!stop.signal.aborted) throw error;
          throw new OperatorError('Broken off; the relay goes on', {
            remedy: 'Run the same command again to see what is left to do',
            cause: error,
          });
        } finally {
          stop.dispose();
        }
      }),
    );

const describe = ({ dryRun, topics, projections }: AddPartitionsReport): string => {
  if (topics.length === 0)
    return 'Every topic has the partitions that are planned, and all that is kept fits them.';
  const rows = topics.map(({ topic, before, partitions }) => [topic, String(before), String(partitions)]);
  const moved = projections.map(
    ({ projection, states, parkedKeys }) =>
      `${projection}: ${states} states and ${parkedKeys} parked keys were moved.`,
  );
  return [
    table([['TOPIC', 'PARTITIONS', dryRun ? 'WOULD BE' : 'NOW'], ...rows]),
    ...(dryRun
      ? ['Nothing was changed. The relay is paused meanwhile, and commands go on; do it with --yes.']
      : moved),
  ].join('\n');
};
