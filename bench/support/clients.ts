import type { Endpoints } from '../../src/infra/infrastructure.ts';
import { createKafka, type KafkaClient } from '../../src/kafka/create-kafka.ts';
import { createLogger } from '../../src/logging/create-logger.ts';
import { type Database, openDatabase } from '../../src/postgres/database.ts';
import { connectSchemaRegistry, type SchemaRegistry } from '../../src/registry/schema-registry.ts';

export const requestTimeoutMs = 30_000;
export const benchLog = createLogger({ level: 'warn', format: 'pretty' });

/** Statements of a benchmark may take minutes. */
export const openBenchDatabase = (url: string, poolSizeMax: number): Database =>
  openDatabase({
    url,
    applicationName: 'bench',
    poolSizeMax,
    connectTimeoutMs: 5000,
    statementTimeoutMs: 600_000,
    idleTransactionTimeoutMs: 600_000,
    onIdleError: () => {},
  });

export const benchKafka = ({ kafkaBrokers }: Pick<Endpoints, 'kafkaBrokers'>): KafkaClient =>
  createKafka({
    brokers: kafkaBrokers,
    clientId: 'bench',
    connectTimeoutMs: 5000,
    requestTimeoutMs,
    retriesMax: 5,
    retryDelayMs: 100,
    log: benchLog,
  });

export const benchRegistry = ({ schemaRegistryUrl }: Pick<Endpoints, 'schemaRegistryUrl'>): SchemaRegistry =>
  connectSchemaRegistry({ url: schemaRegistryUrl, requestTimeoutMs, compatibility: 'FULL_TRANSITIVE' });
