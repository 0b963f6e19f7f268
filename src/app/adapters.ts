import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import type { Config } from '../config/settings.ts';
import type { Endpoints } from '../infra/infrastructure.ts';
import { countReachableBrokers } from '../kafka/count-reachable-brokers.ts';
import { createKafka, type KafkaClient } from '../kafka/create-kafka.ts';
import { type Database, openDatabase } from '../postgres/database.ts';
import { connectSchemaRegistry, type SchemaRegistry } from '../registry/schema-registry.ts';
import { serviceName } from './service-name.ts';

/** The servers as this process sees them, each behind its adapter. */
export interface Adapters {
  readonly database: Database;
  readonly kafka: KafkaClient;
  /** How many brokers answer this process at the moment. */
  readonly countReachableBrokers: () => Promise<number>;
  readonly registry: SchemaRegistry;
  /** Names this process among others of its kind. */
  readonly processName: string;
}

/** The database alone, for what has to work without the other servers. */
export const openJournal = (config: Config, databaseUrl: string, log: Logger): Database =>
  openDatabase({
    url: databaseUrl,
    applicationName: serviceName,
    poolSizeMax: config.database.poolSizeMax,
    connectTimeoutMs: config.database.connectTimeoutMs,
    statementTimeoutMs: config.database.statementTimeoutMs,
    idleTransactionTimeoutMs: config.database.idleTransactionTimeoutMs,
    onIdleError: (error) =>
      log.debug({ err: error }, 'An idle database connection broke; the pool opens another'),
  });

export const openAdapters = (config: Config, endpoints: Endpoints, log: Logger): Adapters => {
  const { connectTimeoutMs, requestTimeoutMs, retriesMax, retryDelayMs } = config.kafka;
  const retrying = { connectTimeoutMs, requestTimeoutMs, retriesMax, retryDelayMs };
  const kafkaOptions = { brokers: endpoints.kafkaBrokers, clientId: serviceName, ...retrying, log };
  return {
    database: openJournal(config, endpoints.databaseUrl, log),
    kafka: createKafka(kafkaOptions),
    countReachableBrokers: () => countReachableBrokers(kafkaOptions),
    registry: connectSchemaRegistry({
      url: endpoints.schemaRegistryUrl,
      requestTimeoutMs: config.registry.requestTimeoutMs,
      compatibility: config.registry.compatibility,
    }),
    processName: `${hostname()}/${process.pid}/${randomUUID().slice(0, 8)}`,
  };
};
