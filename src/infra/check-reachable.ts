import type { NetConnectOpts } from 'node:net';
import { maskPassword } from '../config/load-config.ts';
import type { Config } from '../config/settings.ts';
import { OperatorError } from '../operator-error.ts';
import { httpStatus } from './http-status.ts';
import type { NamedServers } from './infrastructure-plan.ts';
import { tcpExchange } from './tcp-exchange.ts';

interface Unreachable {
  readonly variable: string;
  readonly shown: string;
  readonly reason: string;
}

const redisTimeoutMs = 5000;

/** Looks at every named server at once, so that one message names everything that does not answer. */
export const checkReachable = async (named: NamedServers, config: Config): Promise<void> => {
  const checks = [
    named.databaseUrl && checkDatabase(named.databaseUrl, config.database.connectTimeoutMs),
    named.kafkaBrokers && checkKafka(named.kafkaBrokers, config.kafka.connectTimeoutMs),
    named.schemaRegistryUrl && checkRegistry(named.schemaRegistryUrl, config.registry.requestTimeoutMs),
    named.redisUrl && checkRedis(named.redisUrl, redisTimeoutMs),
  ];
  const failures = (await Promise.all(checks)).filter((failure) => typeof failure === 'object');
  if (failures.length === 0) return;
  const variables = failures.map((failure) => failure.variable).join(', ');
  const descriptions = failures.map(
    ({ variable, shown, reason }) => `${variable} names ${shown}, which cannot be used: ${reason}`,
  );
  throw new OperatorError(descriptions.join('; '), {
    remedy: `Start it or correct ${variables}; without ${variables} Millrace starts its own`,
  });
};

const checkDatabase = async (url: string, timeoutMs: number): Promise<Unreachable | undefined> => {
  const reason = await reasonAgainst(() => tcpExchange(databaseTarget(url), { timeoutMs }));
  return reason ? { variable: 'DATABASE_URL', shown: maskPassword(url), reason } : undefined;
};

/** A socket directory arrives as `?host=/path`, as libpq and pg understand it. */
const databaseTarget = (url: string): NetConnectOpts => {
  const { hostname, port, searchParams } = new URL(url);
  const host = searchParams.get('host') ?? hostname;
  const portNumber = Number(searchParams.get('port') ?? port) || 5432;
  if (host.startsWith('/')) return { path: `${host}/.s.PGSQL.${portNumber}` };
  return { host: withoutBrackets(host) || 'localhost', port: portNumber };
};

/** Clients find the other brokers through the first that answers, so one is enough. */
const checkKafka = async (
  brokers: readonly string[],
  timeoutMs: number,
): Promise<Unreachable | undefined> => {
  const reasons = await Promise.all(
    brokers.map((broker) => {
      const { hostname, port } = new URL(`kafka://${broker}`);
      return reasonAgainst(() => tcpExchange({ host: hostname, port: Number(port) }, { timeoutMs }));
    }),
  );
  if (reasons.some((reason) => reason === undefined)) return undefined;
  return { variable: 'KAFKA_BROKERS', shown: brokers.join(','), reason: reasons[0] ?? 'no broker is named' };
};

/** For whoever wants to know soon that the brokers are away. */
export const requireBrokers = async (brokers: readonly string[], config: Config): Promise<void> => {
  const failure = await checkKafka(brokers, config.kafka.connectTimeoutMs);
  if (!failure) return;
  throw new OperatorError(`The brokers ${failure.shown} cannot be used: ${failure.reason}`, {
    remedy: 'Start them, or correct KAFKA_BROKERS',
  });
};

const checkRegistry = async (url: string, timeoutMs: number): Promise<Unreachable | undefined> => {
  const reason = await reasonAgainst(async () => {
    const status = await httpStatus(`${url.replace(/\/+$/, '')}/subjects`, { timeoutMs });
    // A registry that wants credentials is there; whether they are right shows when it is used.
    if (status === 401 || status === 403) return;
    if (status === 404) throw new Error('it answers 404, so this is not the base of a Confluent API');
    if (status >= 400) throw new Error(`it answers with status ${status}`);
  });
  return reason ? { variable: 'SCHEMA_REGISTRY_URL', shown: maskPassword(url), reason } : undefined;
};

const checkRedis = async (url: string, timeoutMs: number): Promise<Unreachable | undefined> => {
  const { hostname, port } = new URL(url);
  const target = { host: withoutBrackets(hostname) || 'localhost', port: Number(port) || 6379 };
  const reason = await reasonAgainst(() => tcpExchange(target, { timeoutMs }));
  return reason ? { variable: 'REDIS_URL', shown: maskPassword(url), reason } : undefined;
};

const withoutBrackets = (host: string): string => host.replace(/^\[(.*)\]$/, '$1');

const reasonAgainst = async (attempt: () => Promise<unknown>): Promise<string | undefined> => {
  try {
    await attempt();
    return undefined;
  } catch (error) {
    return inWords(error as NodeJS.ErrnoException);
  }
};

const wordsByCode: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection is refused',
  ENOTFOUND: 'its host name is unknown',
  EAI_AGAIN: 'its host name cannot be looked up',
  EHOSTUNREACH: 'its host cannot be reached',
  ENOENT: 'its socket does not exist',
};

const inWords = (error: NodeJS.ErrnoException): string => wordsByCode[error.code ?? ''] ?? error.message;
