import { Command } from 'commander';
import { migrate } from '../postgres/migrate.ts';
import { withServers } from './session.ts';

export const migrateCommand = (): Command =>
  new Command('migrate')
    .description('Bring the database schema up to date')
    .option('--dry-run', 'only say what would be applied')
    .option('--json', 'as JSON')
    .action(({ dryRun, json }: { dryRun?: boolean; json?: boolean }) =>
      withServers('working', async ({ config, infrastructure, log }) => {
        const migrations = await migrate(infrastructure.endpoints.databaseUrl, {
          log,
          connectTimeoutMs: config.database.connectTimeoutMs,
          dryRun: dryRun ?? false,
        });
        if (json) console.log(JSON.stringify({ [dryRun ? 'pending' : 'applied']: migrations }));
        else if (migrations.length === 0) console.log('The database schema is up to date.');
        else for (const name of migrations) console.log(`${dryRun ? 'would apply' : 'applied'} ${name}`);
      }),
    );
