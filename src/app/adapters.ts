import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import type { Config } from '../config/settings.ts';
import type { Endpoints } from '../infra/infrastructure.ts';
import { createKafka, type KafkaClient } from '../kafka/create-kafka.ts';
import { type Database, openDatabase } from '../postgres/database.ts';
import { connectSchemaRegistry, type SchemaRegistry } from '../registry/schema-registry.ts';
import { serviceName } from './service-name.ts';

/** The servers as this process sees them, each behind its adapter. */
export interface Adapters {
  readonly database: Database;
  readonly kafka: KafkaClient;
  readonly registry: SchemaRegistry;
  /** Names this process among others of its kind. */
  readonly processName: string;
}

export const openAdapters = (config: Config, endpoints: Endpoints, log: Logger): Adapters => ({
  database: openDatabase({
    url: endpoints.databaseUrl,
    applicationName: serviceName,
    poolSizeMax: config.database.poolSizeMax,
    connectTimeoutMs: config.database.connectTimeoutMs,
    statementTimeoutMs: config.database.statementTimeoutMs,
    onIdleError: (error) =>
      log.debug({ err: error }, 'An idle database connection broke; the pool opens another'),
  }),
  kafka: createKafka({
    brokers: endpoints.kafkaBrokers,
    clientId: serviceName,
    connectTimeoutMs: config.kafka.connectTimeoutMs,
    requestTimeoutMs: config.kafka.requestTimeoutMs,
    retriesMax: config.kafka.retriesMax,
    retryDelayMs: config.kafka.retryDelayMs,
    log,
  }),
  registry: connectSchemaRegistry({
    url: endpoints.schemaRegistryUrl,
    requestTimeoutMs: config.registry.requestTimeoutMs,
    compatibility: config.registry.compatibility,
  }),
  processName: `${hostname()}/${process.pid}/${randomUUID().slice(0, 8)}`,
});
