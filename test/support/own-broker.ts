import { rmSync } from 'node:fs';
import type { EmbeddedStack } from '../../src/infra/embedded/embedded-stack.ts';
import type { ManagedServer } from '../../src/infra/embedded/managed-server.ts';
import { resetEmbedded } from '../../src/infra/embedded/reset-embedded.ts';
import { configFor, startOnly, temporaryDataDir } from '../integration/infra/stack-settings.ts';
import { silentLog } from './silent-log.ts';

/** A broker for one spec file alone, to do things to that nobody else would forgive. It keeps data and port over a restart. */
export const useOwnBroker = () => {
  const dataDir = temporaryDataDir();
  const config = configFor(dataDir);
  let stack: EmbeddedStack | undefined;
  before(async function () {
    this.timeout(180_000);
    stack = await startOnly(config, { kafka: true });
  });
  after(async () => {
    await stack?.stop();
    await resetEmbedded(config, { log: silentLog() });
    rmSync(dataDir, { recursive: true, force: true });
  });
  const server = (): ManagedServer => {
    const broker = stack?.servers.get('kafka-1');
    if (!broker) throw new Error('The broker is there once the hooks have run');
    return broker;
  };
  return {
    addresses: (): readonly string[] => stack?.endpoints.kafkaBrokers ?? [],
    /** It keeps its connections and does not say a word any more. */
    freeze: (): void => {
      const { pid } = server();
      if (pid === undefined) throw new Error('The broker does not run');
      process.kill(pid, 'SIGSTOP');
    },
    kill: () => server().kill(),
    start: () => server().start(),
  };
};
