import { Command } from 'commander';
import { bringTopicsToPlan } from '../app/prepare.ts';
import { addPartitionsCommand } from './add-partitions.ts';
import { withServers } from './session.ts';
import { table } from './table.ts';

export const topicsCommand = (): Command => {
  const apply = new Command('apply')
    .description('Create the topics and bring their settings to the plan')
    .option('--dry-run', 'only say what would change')
    .option('--json', 'as JSON')
    .action(({ dryRun, json }: { dryRun?: boolean; json?: boolean }) =>
      withServers('working', async ({ adapters, config }) => {
        const changes = await bringTopicsToPlan(adapters, config, { dryRun: dryRun ?? false });
        if (json) console.log(JSON.stringify({ dryRun: dryRun ?? false, topics: changes }, null, 2));
        else {
          const rows = changes.map(({ topic, change, detail }) => [topic, change, detail]);
          console.log(table([['TOPIC', dryRun ? 'WOULD BE' : 'RESULT', 'DETAIL'], ...rows]));
        }
      }),
    );
  return new Command('topics')
    .description('Kafka topics')
    .addCommand(apply)
    .addCommand(addPartitionsCommand());
};
