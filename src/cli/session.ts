import type { Logger } from 'pino';
import { type Adapters, openAdapters, openJournal } from '../app/adapters.ts';
import { type LoadedConfig, loadConfig } from '../config/load-config.ts';
import type { Config } from '../config/settings.ts';
import type { Infrastructure } from '../infra/infrastructure.ts';
import {
  attachDatabase,
  attachInfrastructure,
  provideInfrastructure,
} from '../infra/provide-infrastructure.ts';
import { createLogger } from '../logging/create-logger.ts';
import type { Database } from '../postgres/database.ts';
import { plainProgress } from './progress.ts';

/** Settings given as flags win over the environment, which wins over the file. */
export const readConfig = (flags: Readonly<Record<string, string | undefined>> = {}): LoadedConfig => {
  const given = Object.entries(flags).filter(([, value]) => value !== undefined);
  return loadConfig({ env: { ...process.env, ...Object.fromEntries(given) } });
};

export interface Session {
  readonly config: Config;
  readonly adapters: Adapters;
  readonly infrastructure: Infrastructure;
  readonly log: Logger;
}

/**
 * Runs a command against the servers and leaves nothing open afterwards. `looking` commands need servers that run
 * already; `diagnosing` ones are content when the database answers; `working` ones start the embedded servers for as long
 * as they take.
 */
export const withServers = async <T>(
  kind: 'looking' | 'diagnosing' | 'working',
  routine: (session: Session) => Promise<T>,
): Promise<T> => {
  const { config } = readConfig();
  const log = createLogger({ level: config.process.logLevel, format: config.process.logFormat });
  const report = plainProgress(process.stderr);
  const infrastructure =
    kind === 'working'
      ? await provideInfrastructure(config, { log, report })
      : await attachInfrastructure(config, { log, report, onlyDatabaseAnswers: kind === 'diagnosing' });
  try {
    const adapters = openAdapters(config, infrastructure.endpoints, log);
    try {
      return await routine({ config, adapters, infrastructure, log });
    } finally {
      await adapters.database.close();
    }
  } finally {
    await infrastructure.stop();
  }
};

/** For commands that are asked when the brokers do not answer: they need a database that runs already, and nothing else. */
export const withDatabase = async <T>(
  routine: (session: { config: Config; database: Database; log: Logger }) => Promise<T>,
): Promise<T> => {
  const { config } = readConfig();
  const log = createLogger({ level: config.process.logLevel, format: config.process.logFormat });
  const url = await attachDatabase(config, { log, report: plainProgress(process.stderr) });
  const database = openJournal(config, url, log);
  try {
    return await routine({ config, database, log });
  } finally {
    await database.close();
  }
};
