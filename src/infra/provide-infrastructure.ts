import type { Logger } from 'pino';
import type { Config } from '../config/settings.ts';
import { OperatorError } from '../operator-error.ts';
import { checkReachable } from './check-reachable.ts';
import { composeProvider } from './docker/compose.ts';
import type { DockerProvider } from './docker/docker-provider.ts';
import type { ManagedServer } from './embedded/managed-server.ts';
import { findRunningStack, ownOrJoinStack } from './embedded/own-or-join.ts';
import type { EmbeddedEndpoints } from './embedded/stack-state.ts';
import type { Endpoints, Infrastructure, ReportProgress } from './infrastructure.ts';
import {
  mergeEndpoints,
  type NamedServers,
  namedServers,
  planInfrastructure,
} from './infrastructure-plan.ts';

export interface ProvideOptions {
  readonly log: Logger;
  readonly report?: ReportProgress;
  readonly docker?: DockerProvider;
  /** Calls a start off; what was started by then is stopped before the call comes back. */
  readonly signal?: AbortSignal;
  readonly env?: NodeJS.ProcessEnv;
}

export interface AttachOptions extends Partial<ProvideOptions> {
  /** Of the servers that are named, only the database has to answer. */
  readonly onlyDatabaseAnswers?: boolean;
}

export interface ProvidedInfrastructure extends Infrastructure {
  /** The embedded servers that run as children of this process, by name; empty when none do. */
  readonly servers: ReadonlyMap<string, ManagedServer>;
}

/** Servers to run on: named by the environment, in Docker, or embedded, in this order for each of them. */
export const provideInfrastructure = async (
  config: Config,
  options: ProvideOptions,
): Promise<ProvidedInfrastructure> => {
  const { log, report = () => undefined, docker = composeProvider(), signal, env = process.env } = options;
  const plan = planInfrastructure(config);
  await checkReachable(namedServers(config), config);
  if (plan.kind === 'external') return external(plan.endpoints);
  if (plan.kind === 'docker') {
    const started = await docker.start({ needs: plan.needs, log, report, signal });
    return {
      ...withStop(started),
      endpoints: mergeEndpoints(plan.named, started.endpoints),
      servers: new Map(),
    };
  }
  const access = await ownOrJoinStack({ config, needs: plan.needs, log, report, signal, env });
  if (access.kind === 'joined')
    return { ...external(complete(plan.named, access.endpoints)), origin: 'embedded' };
  const { stack } = access;
  return {
    origin: 'embedded',
    endpoints: complete(plan.named, stack.endpoints),
    failed: stack.failed,
    servers: stack.servers,
    stop: () => stack.stop(),
  };
};

/** The servers that run already, for commands that only look; starts nothing. */
export const attachInfrastructure = async (
  config: Config,
  options: AttachOptions = {},
): Promise<Infrastructure> => {
  const { docker = composeProvider(), onlyDatabaseAnswers = false } = options;
  const plan = planInfrastructure(config);
  const mustAnswer = (named: NamedServers): NamedServers => (onlyDatabaseAnswers ? databaseOf(named) : named);
  if (plan.kind === 'external') {
    await checkReachable(mustAnswer(plan.endpoints), config);
    return external(plan.endpoints);
  }
  const running =
    plan.kind === 'docker' ? await docker.findRunning() : findRunningStack(config.infra.dataDir);
  if (running === undefined) throw nothingRuns(config, plan.kind);
  await checkReachable(mustAnswer(plan.named), config);
  return { ...external(complete(plan.named, running)), origin: plan.kind };
};

const databaseOf = ({ databaseUrl }: Pick<NamedServers, 'databaseUrl'>): NamedServers => ({
  databaseUrl,
  kafkaBrokers: undefined,
  schemaRegistryUrl: undefined,
  redisUrl: undefined,
});

/** Only the database, for commands that have to work while the brokers do not; starts nothing. */
export const attachDatabase = async (
  config: Config,
  options: Partial<ProvideOptions> = {},
): Promise<string> => {
  const { docker = composeProvider() } = options;
  const { url } = config.database;
  if (url !== undefined) {
    await checkReachable(databaseOf({ databaseUrl: url }), config);
    return url;
  }
  const kind = config.infra.mode === 'docker' ? 'docker' : 'embedded';
  const running = kind === 'docker' ? await docker.findRunning() : findRunningStack(config.infra.dataDir);
  if (running?.databaseUrl === undefined) throw nothingRuns(config, kind);
  return running.databaseUrl;
};

const nothingRuns = (config: Config, kind: 'docker' | 'embedded'): OperatorError => {
  const where = kind === 'docker' ? 'in Docker' : `in ${config.infra.dataDir}`;
  return new OperatorError(`Nothing is running ${where}`, {
    remedy:
      'Start it with npm start, or name running servers in DATABASE_URL, KAFKA_BROKERS and SCHEMA_REGISTRY_URL',
  });
};

/** Servers that somebody else started: there is nothing here that could fail or be stopped. */
const external = (endpoints: Endpoints): ProvidedInfrastructure => ({
  origin: 'external',
  endpoints,
  failed: new Promise<never>(() => undefined),
  servers: new Map(),
  stop: () => Promise.resolve(),
});

const withStop = ({ origin, failed, stop }: Infrastructure): Omit<Infrastructure, 'endpoints'> => ({
  origin,
  failed,
  stop,
});

/** The plan asked for everything that is not named, so a gap here is a mistake of ours. */
const complete = (named: NamedServers, started: EmbeddedEndpoints | Endpoints): Endpoints => {
  const databaseUrl = named.databaseUrl ?? started.databaseUrl;
  const kafkaBrokers = named.kafkaBrokers ?? started.kafkaBrokers;
  const schemaRegistryUrl = named.schemaRegistryUrl ?? started.schemaRegistryUrl;
  if (!databaseUrl || !kafkaBrokers || !schemaRegistryUrl) {
    throw new Error('the servers were started, but one of their addresses is unknown');
  }
  return { databaseUrl, kafkaBrokers, schemaRegistryUrl, redisUrl: named.redisUrl ?? started.redisUrl };
};
