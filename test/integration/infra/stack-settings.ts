import { mkdtempSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '../../../src/config/load-config.ts';
import type { Config } from '../../../src/config/settings.ts';
import type { EmbeddedStack } from '../../../src/infra/embedded/embedded-stack.ts';
import { ownOrJoinStack } from '../../../src/infra/embedded/own-or-join.ts';
import type { Needs } from '../../../src/infra/infrastructure-plan.ts';
import { silentLog } from '../../support/silent-log.ts';

export const temporaryDataDir = (): string => realpathSync(mkdtempSync(join(tmpdir(), 'millrace-infra-')));

/** The same for this process and for a spawned one, whatever the environment of the test run names. */
export const settingsFor = (
  dataDir: string,
  more: Readonly<Record<string, string>> = {},
): Record<string, string> => ({
  MILLRACE_INFRA: 'embedded',
  MILLRACE_DATA_DIR: dataDir,
  DATABASE_URL: '',
  KAFKA_BROKERS: '',
  SCHEMA_REGISTRY_URL: '',
  REDIS_URL: '',
  ...(process.env.MILLRACE_CACHE_DIR ? { MILLRACE_CACHE_DIR: process.env.MILLRACE_CACHE_DIR } : {}),
  ...more,
});

export const configFor = (dataDir: string, more: Readonly<Record<string, string>> = {}): Config =>
  loadConfig({ env: settingsFor(dataDir, more), envFile: '/dev/null' }).config;

/** Some of the servers are enough for most questions, and start faster. */
export const startOnly = async (config: Config, needs: Partial<Needs>): Promise<EmbeddedStack> => {
  const access = await ownOrJoinStack({
    config,
    needs: { postgres: false, kafka: false, registry: false, redis: false, ...needs },
    log: silentLog(),
    report: () => undefined,
    env: process.env,
    signal: undefined,
  });
  if (access.kind === 'joined') throw new Error('another process runs a stack in this data directory');
  return access.stack;
};
