import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CliProcess, environmentOf, readyUrl, startCli } from './cli.ts';
import { type KafkaProxy, startKafkaProxy } from './kafka-proxy.ts';
import { redirectedPortsVariable } from './redirect-connections.ts';
import type { LogLine } from './silent-log.ts';
import type { Workspace } from './stack.ts';

/** Leases and pauses are short, so that little time goes by; a machine that is busy must not look like a broken server. */
const relayEnvironment = {
  DATABASE_CONNECT_TIMEOUT_MS: '60000',
  KAFKA_CONNECT_TIMEOUT_MS: '60000',
  SCHEMA_REGISTRY_REQUEST_TIMEOUT_MS: '60000',
  RELAY_LEASE_MS: '2000',
  RELAY_RETRY_LEASE_MS: '2000',
  RELAY_POLL_INTERVAL_MS: '20',
  RELAY_BATCH_SIZE_MAX: '50',
  RELAY_RETRY_DELAY_MS: '100',
  RELAY_RETRY_INTERVAL_MS: '100',
  RELAY_BACKOFF_BASE_MS: '50',
  RELAY_BACKOFF_MAX_MS: '500',
  RELAY_BREAKER_OPEN_MS: '500',
  KAFKA_RETRY_DELAY_MS: '100',
};

export interface RelayProcess extends CliProcess {
  /** Its way to the broker. */
  readonly kafka: KafkaProxy;
  readonly dataDir: string;
  log(): readonly LogLine[];
  /** As `kill -9` does; comes back when it is gone. */
  kill(): Promise<void>;
  /** As an operator does; comes back with the exit code. */
  stop(): Promise<number | null>;
}

/** Relays as processes of their own, each with a network of its own to the broker; killed after each test. */
export const useRelayProcesses = (workspace: () => Workspace) => {
  const running: RelayProcess[] = [];

  const start = async (env: Readonly<Record<string, string>> = {}): Promise<RelayProcess> => {
    const { endpoints } = workspace();
    const [broker = ''] = endpoints.kafkaBrokers;
    const kafka = await startKafkaProxy(broker);
    const dataDir = mkdtempSync(join(tmpdir(), 'millrace-relay-'));
    const cli = startCli(['up', '--role', 'relay'], {
      ...environmentOf(workspace()),
      ...relayEnvironment,
      MILLRACE_DATA_DIR: dataDir,
      NODE_OPTIONS: `--import ${join(import.meta.dirname, 'redirect-connections.ts')}`,
      [redirectedPortsVariable]: `${broker.split(':')[1]}:${kafka.port}`,
      ...env,
    });
    const end = async (signal: 'SIGTERM' | 'SIGKILL'): Promise<number | null> => {
      // A stopped process hears of SIGTERM only when it goes on.
      cli.child.kill(signal);
      cli.child.kill('SIGCONT');
      return cli.ended;
    };
    const relay: RelayProcess = {
      ...cli,
      kafka,
      dataDir,
      log: () => linesOf(cli.stderr()),
      kill: async () => void (await end('SIGKILL')),
      stop: () => end('SIGTERM'),
    };
    running.push(relay);
    return relay;
  };

  afterEach(async function () {
    for (const relay of running.splice(0)) {
      await relay.kill();
      // What a relay says itself tells more about a failure than what became of its events.
      if (this.currentTest?.state === 'failed') process.stderr.write(lastLinesOf(relay));
      await relay.kafka.close();
      rmSync(relay.dataDir, { recursive: true, force: true });
    }
  });

  return {
    /** Comes back at once, for relays that something happens to while they start. */
    begin: start,
    /** Comes back when the relay is at work or stands by. */
    start: async (env: Readonly<Record<string, string>> = {}): Promise<RelayProcess> => {
      const relay = await start(env);
      await readyUrl(relay, 120_000);
      return relay;
    },
  };
};

const lastLinesMax = 15;

const lastLinesOf = (relay: RelayProcess): string =>
  [
    `Relay ${relay.child.pid}, ${relay.kafka.acknowledged()} acknowledgements:`,
    ...relay
      .stderr()
      .trimEnd()
      .split('\n')
      .slice(-lastLinesMax)
      .map((line) => `  ${line.slice(0, 1000)}`),
    '',
  ].join('\n');

/** What is not JSON comes from Node itself, and the last line may not be whole yet. */
const linesOf = (stderr: string): readonly LogLine[] =>
  stderr
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as LogLine);
