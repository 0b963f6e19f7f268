import { rmSync } from 'node:fs';
import type { EmbeddedStack } from '../../src/infra/embedded/embedded-stack.ts';
import { findOnPath } from '../../src/infra/embedded/find-executable.ts';
import type { ManagedServer } from '../../src/infra/embedded/managed-server.ts';
import { resetEmbedded } from '../../src/infra/embedded/reset-embedded.ts';
import { configFor, startOnly, temporaryDataDir } from '../integration/infra/stack-settings.ts';
import { silentLog } from './silent-log.ts';

/** Without it there is nothing to hold a cache in Redis against; the one in the process stands for itself. */
export const hasRedis = findOnPath('redis-server', process.env) !== undefined;

/** A Redis for one spec file alone, to be killed and frozen. It keeps its port over a restart. */
export const useOwnRedis = () => {
  const dataDir = temporaryDataDir();
  const config = configFor(dataDir);
  let stack: EmbeddedStack | undefined;
  before(async function () {
    this.timeout(60_000);
    stack = await startOnly(config, { redis: true });
  });
  after(async () => {
    signal('SIGCONT');
    await stack?.stop();
    await resetEmbedded(config, { log: silentLog() });
    rmSync(dataDir, { recursive: true, force: true });
  });
  const server = (): ManagedServer => {
    const redis = stack?.servers.get('redis');
    if (!redis) throw new Error('Redis is there once the hooks have run');
    return redis;
  };
  const signal = (name: NodeJS.Signals): void => {
    const { pid } = server();
    if (pid !== undefined) process.kill(pid, name);
  };
  return {
    url: (): string => stack?.endpoints.redisUrl ?? '',
    /** It keeps its connections and does not say a word any more. */
    freeze: () => signal('SIGSTOP'),
    thaw: () => signal('SIGCONT'),
    kill: () => server().kill(),
    start: () => server().start(),
  };
};
