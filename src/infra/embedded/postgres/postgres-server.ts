import { join } from 'node:path';
import type { ServerSpec } from '../managed-server.ts';
import { type PostgresCluster, postgresUser } from './postgres-cluster.ts';
import { isPostgresReady } from './postgres-probe.ts';

const stopTimeoutMs = 15_000;

/** Durable as in production; the rest suits a laptop. */
const settings = (port: number): readonly string[] => [
  `port=${port}`,
  'listen_addresses=127.0.0.1',
  'unix_socket_directories=',
  'wal_level=logical',
  'max_connections=200',
  'max_wal_senders=10',
  'max_replication_slots=10',
  // An abandoned slot must not fill the disk.
  'max_slot_wal_keep_size=1GB',
  'shared_buffers=128MB',
  'max_wal_size=1GB',
  'password_encryption=scram-sha-256',
  // Errors of statements belong to whoever sent them; a conflict an application expects must not grow the log.
  'log_min_messages=log',
  'log_checkpoints=off',
  'log_line_prefix=%m [%p] ',
];

export const postgresServer = (
  cluster: PostgresCluster,
  options: { port: number; logs: string },
): ServerSpec => ({
  name: 'postgres',
  title: 'PostgreSQL',
  command: cluster.binaries.postgres,
  args: ['-D', cluster.data, ...settings(options.port).flatMap((setting) => ['-c', setting])],
  cwd: cluster.data,
  // English messages, whatever the language of the machine: they are searched for the reason of a failure.
  env: { LC_ALL: 'C' },
  user: cluster.user,
  // Fast shutdown: it rolls back and disconnects, where SIGTERM would wait for every client to leave.
  stopSignal: 'SIGINT',
  stopTimeoutMs,
  logFile: join(options.logs, 'postgres.log'),
  isHealthy: () => isPostgresReady({ port: options.port, user: postgresUser }),
  // After a kill the old server's processes need a moment to notice.
  passingTrouble: /pre-existing shared memory block/,
});

export const postgresUrl = (options: { password: string; port: number; database: string }): string =>
  `postgres://${postgresUser}:${options.password}@127.0.0.1:${options.port}/${options.database}`;
