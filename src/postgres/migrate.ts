import { join } from 'node:path';
import { runner } from 'node-pg-migrate';
import pg from 'pg';
import type { Logger } from 'pino';
import { projectRoot } from '../project-root.ts';
import { requireSupportedServer } from './require-supported-server.ts';

export const migrationsDir = join(projectRoot, 'migrations');

/** Brings the schema up to date and answers with the names of what was applied. Processes that start together take turns. */
export const migrate = async (
  databaseUrl: string,
  options: { log: Logger; connectTimeoutMs: number; dryRun?: boolean },
): Promise<readonly string[]> => {
  const client = new pg.Client({
    connectionString: databaseUrl,
    application_name: 'millrace-migrate',
    connectionTimeoutMillis: options.connectTimeoutMs,
  });
  // The failure also rejects the query under way; without a listener it would end the process first.
  client.on('error', (error) => options.log.debug({ err: error }, 'The connection of the migration broke'));
  await client.connect();
  try {
    await requireSupportedServer(client);
    const applied = await runner({
      dbClient: client,
      dir: migrationsDir,
      direction: 'up',
      migrationsTable: 'schema_migration',
      advisoryLockMode: 'wait',
      checkOrder: true,
      dryRun: options.dryRun ?? false,
      log: () => {},
      logger: quietLogger(options.log),
    });
    return applied.map((migration) => migration.name);
  } finally {
    await client.end();
  }
};

const quietLogger = (log: Logger) => ({
  debug: () => {},
  info: () => {},
  warn: (message: string) => log.warn(message),
  error: (message: string) => log.debug(message),
});
