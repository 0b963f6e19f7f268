import { join } from 'node:path';
import { httpStatus } from '../../http-status.ts';
import type { DataDir } from '../data-dir.ts';
import type { ServerSpec } from '../managed-server.ts';
import { postgresUser } from '../postgres/postgres-cluster.ts';

const stopTimeoutMs = 10_000;
const probeTimeoutMs = 2000;

export interface RegistryOptions {
  readonly dir: DataDir;
  readonly java: string;
  readonly jars: string;
  readonly port: number;
  readonly postgresPort: number;
  readonly password: string;
}

export const registryUrl = (port: number): string => `http://127.0.0.1:${port}/apis/ccompat/v7`;

export const registryServer = (options: RegistryOptions): ServerSpec => ({
  name: 'registry',
  title: 'Schema registry',
  command: options.java,
  args: [
    ...['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-XX:-UsePerfData'],
    ...['-XX:+ExitOnOutOfMemoryError', '-cp', options.jars, 'io.quarkus.runner.GeneratedMain'],
  ],
  cwd: options.dir.run,
  env: settings(options),
  stopSignal: 'SIGTERM',
  stopTimeoutMs,
  logFile: join(options.dir.logs, 'registry.log'),
  isHealthy: () => listsSubjects(registryUrl(options.port)),
});

/** In the environment, because every user of the machine can read the arguments, and one is a password. */
const settings = ({ port, postgresPort, password }: RegistryOptions): NodeJS.ProcessEnv => ({
  QUARKUS_HTTP_HOST: '127.0.0.1',
  QUARKUS_HTTP_PORT: String(port),
  // One line for each request would grow the log without bound.
  QUARKUS_HTTP_ACCESS_LOG_ENABLED: 'false',
  APICURIO_STORAGE_KIND: 'sql',
  APICURIO_STORAGE_SQL_KIND: 'postgresql',
  APICURIO_DATASOURCE_URL: `jdbc:postgresql://127.0.0.1:${postgresPort}/registry`,
  APICURIO_DATASOURCE_USERNAME: postgresUser,
  APICURIO_DATASOURCE_PASSWORD: password,
  // It opens 20 connections by default, and up to 100, of the 200 that everybody shares.
  APICURIO_DATASOURCE_JDBC_INITIAL_SIZE: '1',
  APICURIO_DATASOURCE_JDBC_MIN_SIZE: '1',
  APICURIO_DATASOURCE_JDBC_MAX_SIZE: '8',
});

const listsSubjects = async (url: string): Promise<boolean> => {
  try {
    return (await httpStatus(`${url}/subjects`, { timeoutMs: probeTimeoutMs })) === 200;
  } catch {
    return false;
  }
};
