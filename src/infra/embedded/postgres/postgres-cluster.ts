import { randomBytes } from 'node:crypto';
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { OperatorError } from '../../../operator-error.ts';
import { runTool, ToolError } from '../run-tool.ts';
import type { Supervisor } from '../supervisor.ts';
import type { PostgresBinaries } from './postgres-binaries.ts';
import type { ServerUser } from './server-user.ts';

export const postgresUser = 'millrace';
export const databases = ['millrace', 'registry'] as const;

const initTimeoutMs = 120_000;

export interface PostgresCluster {
  readonly data: string;
  readonly passwordFile: string;
  readonly binaries: PostgresBinaries;
  readonly user: ServerUser | undefined;
}

/** Makes the cluster and its databases where there is none, and hands back the password. */
export const ensurePostgresCluster = async (
  cluster: PostgresCluster,
  context: { supervisor: Supervisor; signal?: AbortSignal | undefined },
): Promise<string> => {
  if (existsSync(cluster.data)) {
    removeForeignPidFile(cluster.data);
    return readPassword(cluster.passwordFile);
  }
  removeHalfMade(cluster.data);
  const password = randomBytes(18).toString('base64url');
  writeFileSync(cluster.passwordFile, password, { mode: 0o600 });
  const workshop = `${cluster.data}.unfinished-${randomBytes(6).toString('hex')}`;
  try {
    await initialize(cluster, { ...context, workshop, password });
    // Only a finished cluster gets the name; a crash before this line leaves nothing that looks like one.
    renameSync(join(workshop, 'data'), cluster.data);
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    throw new OperatorError(`PostgreSQL's data directory could not be made: ${error.complaint}`, {
      remedy: 'Make sure there is room and that the directory can be written, and start again',
      cause: error,
    });
  } finally {
    rmSync(workshop, { recursive: true, force: true });
  }
  return password;
};

const initialize = async (
  cluster: PostgresCluster,
  context: { supervisor: Supervisor; signal?: AbortSignal | undefined; workshop: string; password: string },
): Promise<void> => {
  const { binaries, user } = cluster;
  const data = join(context.workshop, 'data');
  const passwordFile = join(context.workshop, 'password');
  const statements = join(context.workshop, 'create-databases.sql');
  mkdirSync(data, { recursive: true, mode: 0o700 });
  writeFileSync(passwordFile, context.password, { mode: 0o600 });
  // Single-user mode takes one statement a line.
  writeFileSync(statements, databases.map((name) => `create database ${name}\n`).join(''));
  for (const path of [context.workshop, data, passwordFile, statements]) {
    if (user) chownSync(path, user.uid, user.gid);
  }
  const tool = { cwd: context.workshop, user, timeoutMs: initTimeoutMs, signal: context.signal };
  await runTool(context.supervisor, {
    ...tool,
    name: 'initdb',
    command: binaries.initdb,
    args: [
      `--pgdata=${data}`,
      `--username=${postgresUser}`,
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
    ],
  });
  const output = await runTool(context.supervisor, {
    ...tool,
    name: 'create databases',
    command: '/bin/sh',
    args: ['-c', '"$0" --single -D "$1" postgres <"$2"', binaries.postgres, data, statements],
  });
  // Single-user mode goes on after an error, and then exits as if there had been none.
  if (/\b(ERROR|FATAL|PANIC):/.test(output)) throw new ToolError('create databases failed', output);
};

const removeHalfMade = (data: string): void => {
  const parent = dirname(data);
  mkdirSync(parent, { recursive: true });
  for (const name of readdirSync(parent).filter((entry) =>
    entry.startsWith(`${basename(data)}.unfinished-`),
  )) {
    rmSync(join(parent, name), { recursive: true, force: true });
  }
};

const readPassword = (path: string): string => {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (cause) {
    throw new OperatorError(`PostgreSQL's data is there, but not its password (${path})`, {
      remedy: 'Put the file back, or remove all data with: npm run reset',
      cause,
    });
  }
};

/**
 * After a reboot the pid in the file may belong to anybody, and PostgreSQL then refuses to start. A postmaster
 * always works in its data directory, so a process that works elsewhere is not one of this cluster.
 */
const removeForeignPidFile = (data: string): void => {
  const path = join(data, 'postmaster.pid');
  if (process.platform !== 'linux' || !existsSync(path)) return;
  const pid = Number.parseInt(readFileSync(path, 'utf8'), 10);
  try {
    if (readlinkSync(`/proc/${pid}/cwd`) !== data) rmSync(path);
  } catch {
    // No such process: PostgreSQL sees that itself, and cleans up more than the file.
  }
};
