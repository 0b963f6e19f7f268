import { Command } from 'commander';
import { rebuildToolsOf } from '../app/rebuild-tools.ts';
import type { AcceptedLoss } from '../rebuild/accept-loss.ts';
import type { Topology } from '../streams/topology.ts';
import { operatorHere } from './operator-here.ts';
import { withServers } from './session.ts';
import { table } from './table.ts';

interface Options {
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** For a projection that stands still because records are gone, and that is not to be filled from the journal. */
export const acceptLossCommand = (find: (name: string) => Topology): Command =>
  new Command('accept-loss')
    .description(
      'Let a projection go on with what the topics have, without records that are gone and that it had not read',
    )
    .argument('<projection>', 'its name')
    .option('--dry-run', 'only say what would be done without')
    .option('--json', 'as JSON')
    .action((name: string, { dryRun = false, json }: Options) =>
      withServers('working', async ({ adapters, config, infrastructure, log }) => {
        const tools = rebuildToolsOf({
          adapters,
          endpoints: infrastructure.endpoints,
          config,
          who: operatorHere(),
          log,
          onProgress: () => {},
          signal: new AbortController().signal,
        });
        const report = await tools.acceptLoss(find(name), { dryRun });
        console.log(json ? JSON.stringify(report, null, 2) : describeLoss(report));
      }),
    );

export const describeLoss = ({ projection, outcome, wasNeverFilled, lost }: AcceptedLoss): string => {
  if (outcome === 'nothing-lost')
    return `${projection}: nothing is lost; the topics have what it has still to read`;
  const goesOn = outcome === 'tried' ? 'would go on' : 'goes on';
  const how = wasNeverFilled ? 'begins with what the topics have' : `${goesOn} without these records`;
  return [
    `${projection}: ${how}${outcome === 'tried' ? '; nothing was changed' : ''}`,
    ...(lost.length === 0
      ? []
      : [
          table([
            ['TOPIC', 'PARTITION', 'LOST', 'GOES ON AT'],
            ...lost.map(({ topic, partition, checkpoint, firstOffset }) => [
              topic,
              String(partition),
              `${checkpoint} to ${firstOffset - 1}`,
              String(firstOffset),
            ]),
          ]),
        ]),
  ].join('\n');
};
