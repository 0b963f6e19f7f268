import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { EmbeddedStack } from '../../src/infra/embedded/embedded-stack.ts';
import type { ManagedServer } from '../../src/infra/embedded/managed-server.ts';
import { resetEmbedded } from '../../src/infra/embedded/reset-embedded.ts';
import { configFor, startOnly, temporaryDataDir } from '../integration/infra/stack-settings.ts';
import { silentLog } from './silent-log.ts';

/** Brokers for one spec file alone, to do things to that nobody else would forgive; they are numbered from 1. */
export const useOwnBrokers = (count: number) => {
  const dataDir = temporaryDataDir();
  const config = configFor(dataDir, { MILLRACE_BROKERS: String(count) });
  let stack: EmbeddedStack | undefined;
  const frozen = new Set<number>();
  const server = (number: number): ManagedServer => {
    const broker = stack?.servers.get(`kafka-${number}`);
    if (!broker) throw new Error('The brokers are there once the hooks have run');
    return broker;
  };
  const signal = (number: number, name: NodeJS.Signals): void => {
    const { pid } = server(number);
    if (pid === undefined) throw new Error('The broker does not run');
    process.kill(pid, name);
  };
  const thaw = (number: number): void => {
    if (frozen.delete(number)) signal(number, 'SIGCONT');
  };
  before(async function () {
    this.timeout(180_000);
    stack = await startOnly(config, { kafka: true });
  });
  after(async () => {
    for (const number of [...frozen]) if (server(number).pid !== undefined) thaw(number);
    await stack?.stop();
    await resetEmbedded(config, { log: silentLog() });
    rmSync(dataDir, { recursive: true, force: true });
  });
  return {
    addresses: (): readonly string[] => stack?.endpoints.kafkaBrokers ?? [],
    server,
    /** Where it keeps its topics. */
    logDir: (number: number): string => join(dataDir, 'kafka', `broker-${number}`),
    /** It keeps its connections and does not say a word any more. */
    freeze: (number: number): void => {
      signal(number, 'SIGSTOP');
      frozen.add(number);
    },
    /** It goes on as if nothing had been. */
    thaw,
  };
};

/** One broker for one spec file alone. It keeps data and port over a restart. */
export const useOwnBroker = () => {
  const { addresses, server, logDir, freeze } = useOwnBrokers(1);
  return {
    addresses,
    logDir: () => logDir(1),
    freeze: () => freeze(1),
    kill: () => server(1).kill(),
    start: () => server(1).start(),
  };
};
