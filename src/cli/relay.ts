import { Command, InvalidArgumentError } from 'commander';
import { readPipelineStatus } from '../app/pipeline-status.ts';
import { planResync, resyncCursor } from '../relay/resync-cursor.ts';
import { withServers } from './session.ts';
import { relayPicture } from './status.ts';

const positiveInteger = (text: string): number => {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1)
    throw new InvalidArgumentError('It must be a whole number from 1 on.');
  return value;
};

export const relayCommand = (): Command =>
  new Command('relay')
    .description('The relay from the outbox to Kafka')
    .addCommand(statusCommand())
    .addCommand(resyncCommand());

const statusCommand = (): Command =>
  new Command('status')
    .description('Who relays, how far it is, and what waits')
    .option('--json', 'as JSON')
    .action(({ json }: { json?: boolean }) =>
      withServers('looking', async ({ adapters, config }) => {
        const { relay } = await readPipelineStatus(adapters, config);
        console.log(json ? JSON.stringify(relay, null, 2) : relayPicture(relay, new Date()).join('\n'));
      }),
    );

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
      withServers('looking', async ({ adapters }) => {
        const plan = await planResync(adapters.database, fromId);
        if (!dryRun) await resyncCursor(adapters.database, fromId);
        if (json) console.log(JSON.stringify({ dryRun: dryRun ?? false, fromId, ...plan }));
        else {
          const verb = dryRun ? 'would be' : 'will be';
          console.log(
            `${plan.rows} events from id ${plan.firstId ?? fromId} to ${plan.lastId ?? 'the end'} ${verb} published again.`,
          );
        }
      }),
    );
