import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { loadConfig } from '../../src/config/load-config.ts';
import { resetEmbedded } from '../../src/infra/embedded/reset-embedded.ts';
import type { Endpoints } from '../../src/infra/infrastructure.ts';
import { provideInfrastructure } from '../../src/infra/provide-infrastructure.ts';
import { createLogger } from '../../src/logging/create-logger.ts';
import { projectRoot } from '../../src/project-root.ts';

const log = createLogger({ level: 'warn', format: 'pretty' });

export const operatorKey = 'bench-operator-key';

/** The processes behind the endpoints, for whoever wants to know what they cost. */
export interface ServerPids {
  readonly postgres: number;
  readonly broker: number;
}

/** Servers of their own for one benchmark, gone with their data when it ends. */
export const withServers = async (
  routine: (endpoints: Endpoints, pids: ServerPids) => Promise<void>,
): Promise<void> => {
  const dataDir = mkdtempSync(join(tmpdir(), 'millrace-bench-'));
  const { config } = loadConfig({ env: { MILLRACE_DATA_DIR: dataDir }, envFile: '/dev/null' });
  const infrastructure = await provideInfrastructure(config, { log });
  try {
    const pidOf = (name: string): number => infrastructure.servers.get(name)?.pid ?? 0;
    await routine(infrastructure.endpoints, { postgres: pidOf('postgres'), broker: pidOf('kafka-1') });
  } finally {
    await infrastructure.stop();
    await resetEmbedded(config, { log });
    rmSync(dataDir, { recursive: true, force: true });
  }
};

export interface Started {
  readonly url: string;
  readonly child: ChildProcess;
  stop(): Promise<void>;
}

/** Millrace as a process of its own, as it would run: what it costs is not mixed with what measures it. */
export const startRole = (
  role: string,
  endpoints: Endpoints,
  env: NodeJS.ProcessEnv = {},
): Promise<Started> =>
  startScript([join(projectRoot, 'src/cli/millrace.ts'), 'up', '--role', role], endpoints, env);

/** Any script that says on standard output when it is ready, and where. */
export const startScript = async (
  args: readonly string[],
  endpoints: Endpoints,
  env: NodeJS.ProcessEnv = {},
): Promise<Started> => {
  const child = spawn(process.execPath, args, {
    env: {
      ...process.env,
      DATABASE_URL: endpoints.databaseUrl,
      KAFKA_BROKERS: endpoints.kafkaBrokers.join(','),
      SCHEMA_REGISTRY_URL: endpoints.schemaRegistryUrl,
      MILLRACE_API_KEYS: `operator:${operatorKey}`,
      MILLRACE_LOG_LEVEL: 'warn',
      PORT: '0',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const url = await new Promise<string>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`${args[0]} ended with ${code} before it was ready`)));
    createInterface({ input: child.stdout }).on('line', (line) => {
      const ready = /is ready: (\S+)/.exec(line)?.[1];
      if (ready) resolve(ready);
    });
  });
  return {
    url,
    child,
    stop: async () => {
      child.kill('SIGTERM');
      await exited;
    },
  };
};

export const authorization = `Bearer ${operatorKey}`;

export const command = async (url: string, path: string, body?: unknown): Promise<void> => {
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: {
      authorization,
      'idempotency-key': randomUUID(),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (response.status !== 201) throw new Error(`${path} answered ${response.status}: ${text}`);
};

export const query = async <T>(url: string, path: string): Promise<T> => {
  const response = await fetch(`${url}${path}`, { headers: { authorization } });
  return (await response.json()) as T;
};
