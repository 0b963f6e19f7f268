import type { Config } from '../config/settings.ts';
import { OperatorError } from '../operator-error.ts';
import type { Endpoints } from './infrastructure.ts';

/** Servers somebody else runs, as far as the environment names them. */
export interface NamedServers {
  readonly databaseUrl: string | undefined;
  readonly kafkaBrokers: readonly string[] | undefined;
  readonly schemaRegistryUrl: string | undefined;
  readonly redisUrl: string | undefined;
}

/** Which servers have to be started because nobody named one. */
export interface Needs {
  readonly postgres: boolean;
  readonly kafka: boolean;
  readonly registry: boolean;
  readonly redis: boolean;
}

export type InfrastructurePlan =
  | { readonly kind: 'external'; readonly endpoints: Endpoints }
  | { readonly kind: 'docker' | 'embedded'; readonly named: NamedServers; readonly needs: Needs };

/** Decides where every server comes from, without touching anything; contradictions are refused here. */
export const planInfrastructure = (config: Config): InfrastructurePlan => {
  const named = namedServers(config);
  if (config.infra.mode === 'embedded') refuseNamedServers(named);
  if (config.infra.mode === 'external') requireNamedServers(named);
  const endpoints = completeEndpoints(named);
  if (endpoints) return { kind: 'external', endpoints };
  return {
    kind: config.infra.mode === 'docker' ? 'docker' : 'embedded',
    named,
    needs: needsBeside(named),
  };
};

export const namedServers = (config: Config): NamedServers => ({
  databaseUrl: config.database.url,
  kafkaBrokers: config.kafka.brokers,
  schemaRegistryUrl: config.registry.url,
  redisUrl: config.redis.url,
});

/** What the environment names wins over what was started. */
export const mergeEndpoints = (named: NamedServers, started: Endpoints): Endpoints => ({
  databaseUrl: named.databaseUrl ?? started.databaseUrl,
  kafkaBrokers: named.kafkaBrokers ?? started.kafkaBrokers,
  schemaRegistryUrl: named.schemaRegistryUrl ?? started.schemaRegistryUrl,
  redisUrl: named.redisUrl ?? started.redisUrl,
});

const completeEndpoints = (named: NamedServers): Endpoints | undefined => {
  const { databaseUrl, kafkaBrokers, schemaRegistryUrl, redisUrl } = named;
  if (!databaseUrl || !kafkaBrokers || !schemaRegistryUrl) return undefined;
  return { databaseUrl, kafkaBrokers, schemaRegistryUrl, redisUrl };
};

/** A registry that is started here keeps its tables in a PostgreSQL that is started here, never in a named one. */
const needsBeside = (named: NamedServers): Needs => ({
  postgres: !named.databaseUrl || !named.schemaRegistryUrl,
  kafka: !named.kafkaBrokers,
  registry: !named.schemaRegistryUrl,
  redis: !named.redisUrl,
});

const requireNamedServers = (named: NamedServers): void => {
  const missing = [
    named.databaseUrl ? [] : ['DATABASE_URL'],
    named.kafkaBrokers ? [] : ['KAFKA_BROKERS'],
    named.schemaRegistryUrl ? [] : ['SCHEMA_REGISTRY_URL'],
  ].flat();
  if (missing.length === 0) return;
  throw new OperatorError(`MILLRACE_INFRA is external, but ${listed(missing)} ${isAre(missing)} not set`, {
    remedy: 'Set them, or let Millrace start what is missing with MILLRACE_INFRA=auto',
    exitCode: 2,
  });
};

const refuseNamedServers = (named: NamedServers): void => {
  const given = [
    named.databaseUrl ? ['DATABASE_URL'] : [],
    named.kafkaBrokers ? ['KAFKA_BROKERS'] : [],
    named.schemaRegistryUrl ? ['SCHEMA_REGISTRY_URL'] : [],
    named.redisUrl ? ['REDIS_URL'] : [],
  ].flat();
  if (given.length === 0) return;
  throw new OperatorError(`MILLRACE_INFRA is embedded, but ${listed(given)} ${isAre(given)} set as well`, {
    remedy: `Unset ${listed(given)}, or use the servers named there with MILLRACE_INFRA=auto`,
    exitCode: 2,
  });
};

const listed = (names: readonly string[]): string =>
  names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
const isAre = (names: readonly string[]): string => (names.length === 1 ? 'is' : 'are');
