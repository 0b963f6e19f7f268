import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { loadConfig } from '../../src/config/load-config.ts';
import type { Config } from '../../src/config/settings.ts';
import { resetEmbedded } from '../../src/infra/embedded/reset-embedded.ts';
import type { Endpoints, Infrastructure } from '../../src/infra/infrastructure.ts';
import { provideInfrastructure } from '../../src/infra/provide-infrastructure.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { silentLog } from './silent-log.ts';

// Another run may use the same servers at the same time.
const templateDatabase = `millrace_template_${process.pid}`;

/** Who may call in the specs. */
export const operatorKey = 'spec-operator-key';
export const shopperKey = (userId: string): string => `spec-shopper-key-${userId}`;
const apiKeys = [
  `operator:${operatorKey}`,
  ...['ann', 'bob'].map((user) => `shopper:${user}:${shopperKey(user)}`),
].join();

interface TestStack {
  readonly infrastructure: Infrastructure;
  readonly config: Config;
  readonly dataDir: string;
}

let starting: Promise<TestStack> | undefined;

const start = async (): Promise<TestStack> => {
  const dataDir = mkdtempSync(join(tmpdir(), 'millrace-test-'));
  const { config } = loadConfig({
    env: { ...process.env, MILLRACE_DATA_DIR: dataDir },
    envFile: '/dev/null',
  });
  // Loaded only where it is asked for: testcontainers brings a second's worth of modules along.
  const docker =
    config.infra.mode === 'docker' ? (await import('./containers.ts')).testcontainers : undefined;
  const infrastructure = await provideInfrastructure(config, {
    log: silentLog(),
    ...(docker && { docker }),
    report: ({ state, subject, text }) => {
      if (state === 'failed') process.stderr.write(`${subject}: ${text}\n`);
    },
  });
  await onServer(infrastructure.endpoints, async (client) => {
    await client.query(`create database ${templateDatabase}`);
  });
  await migrate(databaseUrl(infrastructure.endpoints, templateDatabase), {
    log: silentLog(),
    connectTimeoutMs: 5000,
  });
  return { infrastructure, config, dataDir };
};

/** The servers all specs share: started by the first that asks, stopped when the run ends. */
export const sharedStack = async (): Promise<Endpoints> => {
  starting ??= start();
  return (await starting).infrastructure.endpoints;
};

export const stopSharedStack = async (): Promise<void> => {
  if (!starting) return;
  const { infrastructure, config, dataDir } = await starting;
  starting = undefined;
  await onServer(infrastructure.endpoints, async (client) => {
    await client.query(`drop database ${templateDatabase}`);
  });
  await infrastructure.stop();
  await resetEmbedded(config, { log: silentLog() });
  rmSync(dataDir, { recursive: true, force: true });
};

const databaseUrl = (endpoints: Endpoints, database: string): string => {
  const url = new URL(endpoints.databaseUrl);
  url.pathname = `/${database}`;
  return url.href;
};

const onServer = async (
  endpoints: Endpoints,
  routine: (client: pg.Client) => Promise<void>,
): Promise<void> => {
  const client = new pg.Client({ connectionString: endpoints.databaseUrl });
  await client.connect();
  try {
    await routine(client);
  } finally {
    await client.end();
  }
};

let created = 0;

/** What a process of its own needs to let the clients of the specs in. */
export const accessEnvironment = { MILLRACE_API_KEYS: apiKeys };

export interface Workspace {
  readonly endpoints: Endpoints;
  readonly config: Config;
  /** A name nobody else in this run uses. */
  readonly unique: (name: string) => string;
  /** Closed before the database is dropped, newest first: hooks of the spec itself would run too late. */
  readonly closeAtEnd: (close: () => Promise<void>) => void;
}

/** For one spec file: a database of its own, cloned from the migrated template, and names of its own for topics and groups. */
export const useWorkspace = (env: Readonly<Record<string, string>> = {}): (() => Workspace) => {
  let workspace: Workspace | undefined;
  const closings: (() => Promise<void>)[] = [];
  const database = `spec_${process.pid}_${++created}`;
  const prefix = `${database.replaceAll('_', '-')}.`;

  before(async function () {
    this.timeout(180_000);
    const shared = await sharedStack();
    await onServer(shared, async (client) => {
      await client.query(`create database ${database} template ${templateDatabase}`);
    });
    workspace = {
      endpoints: { ...shared, databaseUrl: databaseUrl(shared, database) },
      config: loadConfig({
        env: { TOPIC_PREFIX: prefix, PORT: '0', MILLRACE_API_KEYS: apiKeys, ...env },
        envFile: '/dev/null',
      }).config,
      unique: (name) => `${prefix}${name}`,
      closeAtEnd: (close) => void closings.push(close),
    };
  });

  after(async () => {
    if (!workspace) return;
    for (const close of closings.reverse()) await close();
    // Without force: a connection that a test left open fails here instead of going unnoticed.
    await onServer(await sharedStack(), async (client) => {
      await client.query(`drop database ${database}`);
    });
  });

  return () => {
    if (!workspace) throw new Error('The workspace is there once the hooks have run');
    return workspace;
  };
};
