import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { OperatorError } from '../../operator-error.ts';
import { projectRoot } from '../../project-root.ts';
import type { Endpoints, Infrastructure } from '../infrastructure.ts';
import type { Needs } from '../infrastructure-plan.ts';
import type { DockerOrder, DockerProvider } from './docker-provider.ts';

const composeFile = join(projectRoot, 'docker-compose.yml');

const daemonTimeoutMs = 10_000;
const upTimeoutMs = 10 * 60_000;
const stopTimeoutMs = 60_000;
const outputBytesMax = 16 * 1024 * 1024;

/** The ports that docker-compose.yml publishes on the loopback address. */
const endpoints: Endpoints = {
  databaseUrl: 'postgres://millrace:millrace@127.0.0.1:15432/millrace',
  kafkaBrokers: ['127.0.0.1:19092', '127.0.0.1:19093', '127.0.0.1:19094'],
  schemaRegistryUrl: 'http://127.0.0.1:18081/apis/ccompat/v7',
  redisUrl: 'redis://127.0.0.1:16379',
};

export const composeProvider = (): DockerProvider => ({
  start: async (order) => {
    await requireDaemon();
    const services = servicesFor(order.needs);
    const before = await runningServices();
    order.report({ subject: 'Docker', state: 'running', text: `starting ${services.join(', ')}` });
    await up(services, order);
    order.report({ subject: 'Docker', state: 'done', text: 'ready', fraction: 1 });
    return running(services.filter((service) => !before.includes(service)));
  },
  findRunning: async () => {
    await requireDaemon();
    const services = await runningServices();
    return services.includes('postgres') && services.includes('kafka-1') ? endpoints : undefined;
  },
});

const servicesFor = (needs: Needs): readonly string[] =>
  [
    needs.postgres ? ['postgres'] : [],
    needs.kafka ? ['kafka-1', 'kafka-2', 'kafka-3'] : [],
    needs.registry ? ['registry'] : [],
    needs.redis ? ['redis'] : [],
  ].flat();

/** Containers are Docker's children, not ours: Docker restarts them, so there is nothing to report as failed. */
const running = (started: readonly string[]): Infrastructure => {
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    if (started.length > 0) await compose(['stop', ...started], { timeoutMs: stopTimeoutMs });
  };
  return {
    origin: 'docker',
    endpoints,
    failed: new Promise<never>(() => undefined),
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
  };
};

const requireDaemon = async (): Promise<void> => {
  try {
    await docker(['info', '--format', '{{.ServerVersion}}'], { timeoutMs: daemonTimeoutMs });
  } catch (cause) {
    throw new OperatorError(`MILLRACE_INFRA is docker, but no Docker daemon answers: ${complaintOf(cause)}`, {
      remedy: 'Start Docker, or use the embedded servers with MILLRACE_INFRA=embedded',
      cause,
    });
  }
};

const up = async (services: readonly string[], { signal }: DockerOrder): Promise<void> => {
  try {
    await compose(['up', '--detach', '--wait', ...services], { timeoutMs: upTimeoutMs, signal });
  } catch (cause) {
    throw new OperatorError(`docker compose could not start the servers: ${complaintOf(cause)}`, {
      remedy: 'Look at the containers with: docker compose ps --all, and docker compose logs',
      cause,
    });
  }
};

const runningServices = async (): Promise<readonly string[]> => {
  const output = await compose(['ps', '--services', '--status', 'running'], { timeoutMs: daemonTimeoutMs });
  return output.split('\n').filter((line) => line !== '');
};

interface Limits {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

const compose = (args: readonly string[], limits: Limits): Promise<string> =>
  docker(['compose', '--file', composeFile, ...args], limits);

const docker = async (args: readonly string[], { timeoutMs, signal }: Limits): Promise<string> => {
  const options = { timeout: timeoutMs, maxBuffer: outputBytesMax, ...(signal ? { signal } : {}) };
  const { stdout } = await promisify(execFile)('docker', args, options);
  return stdout;
};

/** Docker explains itself in the last line of its error output. */
const complaintOf = (error: unknown): string => {
  const { code, stderr, message } = error as { code?: string | number; stderr?: string; message: string };
  if (code === 'ENOENT') return 'there is no docker command';
  return stderr?.trim().split('\n').at(-1) || message;
};
