import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { projectRoot } from '../../src/project-root.ts';
import { eventually } from './eventually.ts';
import { accessEnvironment, type Workspace } from './stack.ts';

export interface CliProcess {
  readonly child: ChildProcess;
  stdout(): string;
  stderr(): string;
  /** The exit code; null when a signal ended it. */
  readonly ended: Promise<number | null>;
}

/** The command line as a process of its own, with no settings but the given ones. */
export const startCli = (args: readonly string[], env: Readonly<Record<string, string>> = {}): CliProcess => {
  const { PATH = '', HOME = '', JAVA_HOME } = process.env;
  const child = spawn(process.execPath, [join(projectRoot, 'src/cli/millrace.ts'), ...args], {
    env: { PATH, HOME, ...(JAVA_HOME && { JAVA_HOME }), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  child.stdout?.on('data', (data: Buffer) => {
    output.stdout += data.toString();
  });
  child.stderr?.on('data', (data: Buffer) => {
    output.stderr += data.toString();
  });
  const ended = once(child, 'close').then(([code]) => code as number | null);
  return { child, stdout: () => output.stdout, stderr: () => output.stderr, ended };
};

export const runCli = async (args: readonly string[], env: Readonly<Record<string, string>> = {}) => {
  const cli = startCli(args, env);
  const code = await cli.ended;
  return { code, stdout: cli.stdout(), stderr: cli.stderr() };
};

export const readyUrl = (cli: CliProcess, timeoutMs = 60_000): Promise<string> => {
  const ready = eventually(
    () => {
      const url = /^Millrace is ready: (\S+)$/m.exec(cli.stdout())?.[1];
      const { exitCode, signalCode } = cli.child;
      if (!url && exitCode === null && signalCode === null)
        throw new Error(`No ready line yet: ${cli.stderr()}`);
      return url;
    },
    { timeoutMs, what: 'ready line' },
  );
  return ready.then((url) => {
    if (url) return url;
    // It has ended: more patience would not help.
    throw new Error(`It ended with ${cli.child.signalCode ?? cli.child.exitCode}: ${cli.stderr()}`);
  });
};

/** What a person would put into the environment to use servers that run already. */
export const environmentOf = ({ endpoints, config }: Workspace): Record<string, string> => ({
  DATABASE_URL: endpoints.databaseUrl,
  KAFKA_BROKERS: endpoints.kafkaBrokers.join(','),
  SCHEMA_REGISTRY_URL: endpoints.schemaRegistryUrl,
  ...(endpoints.redisUrl && { REDIS_URL: endpoints.redisUrl }),
  ...accessEnvironment,
  TOPIC_PREFIX: config.topics.prefix,
  PORT: '0',
});
