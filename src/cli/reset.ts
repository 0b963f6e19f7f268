import { Command } from 'commander';
import { resetEmbedded } from '../infra/embedded/reset-embedded.ts';
import { createLogger } from '../logging/create-logger.ts';
import { readConfig } from './session.ts';

export const resetCommand = (): Command =>
  new Command('reset')
    .description('Drop the data of the embedded servers; downloads are kept')
    .option('--dry-run', 'only say what would be dropped')
    .action(async ({ dryRun }: { dryRun?: boolean }) => {
      const { config } = readConfig();
      const log = createLogger({ level: config.process.logLevel, format: config.process.logFormat });
      const dropped = await resetEmbedded(config, { log, dryRun: dryRun ?? false });
      if (dropped.length === 0) console.log('There is no data of embedded servers.');
      for (const path of dropped) console.log(`${dryRun ? 'would drop' : 'dropped'} ${path}`);
    });
