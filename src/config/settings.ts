import { homedir } from 'node:os';
import { join } from 'node:path';
import { authSettings, httpSettings, rateLimitsSettings } from './http-settings.ts';
import { liveSettings } from './live-settings.ts';
import { relaySettings } from './relay-settings.ts';
import { integer, oneOf, oneOfNumbers, optionalBrokers, optionalUrl, type Setting, text } from './setting.ts';
import { rebuildSettings, streamsSettings } from './streams-settings.ts';

const day_ms = 24 * 60 * 60 * 1000;

/** Every setting there is. The folders of the tree use one group each; the figures are those of the specification. */
export const settings = {
  http: httpSettings,
  auth: authSettings,
  rateLimits: rateLimitsSettings,
  process: {
    role: oneOf({
      variable: 'MILLRACE_ROLE',
      fallback: 'all',
      values: ['all', 'api', 'relay', 'projector'],
      describes: 'What this process does',
    }),
    shutdownTimeoutMs: integer({
      variable: 'MILLRACE_SHUTDOWN_TIMEOUT_MS',
      fallback: 20_000,
      min: 1000,
      max: 300_000,
      describes: 'Time for a clean stop before the process gives up and exits',
    }),
    logLevel: oneOf({
      variable: 'MILLRACE_LOG_LEVEL',
      fallback: 'info',
      values: ['debug', 'info', 'warn', 'error'],
      describes: 'Least severe log line that is written',
    }),
    logFormat: oneOf({
      variable: 'MILLRACE_LOG_FORMAT',
      fallback: 'auto',
      values: ['auto', 'json', 'pretty'],
      describes: 'Log lines as JSON or for people; auto is pretty on a terminal',
    }),
  },
  infra: {
    mode: oneOf({
      variable: 'MILLRACE_INFRA',
      fallback: 'auto',
      values: ['auto', 'embedded', 'docker', 'external'],
      describes: 'Where the servers come from; auto takes the URLs that are given and embeds the rest',
    }),
    brokers: oneOfNumbers({
      variable: 'MILLRACE_BROKERS',
      fallback: 1,
      values: [1, 3],
      describes: 'Kafka brokers of the embedded stack',
    }),
    dataDir: text({
      variable: 'MILLRACE_DATA_DIR',
      fallback: '.millrace',
      describes: 'Data of the embedded servers',
    }),
    cacheDir: text({
      variable: 'MILLRACE_CACHE_DIR',
      fallback: join(homedir(), '.cache', 'millrace'),
      describes: 'Downloaded servers; kept over npm ci and npm run reset',
    }),
    startTimeoutMs: integer({
      variable: 'MILLRACE_START_TIMEOUT_MS',
      fallback: 60_000,
      min: 1000,
      max: 600_000,
      describes: 'Time each server has to become healthy',
    }),
  },
  database: {
    url: optionalUrl({
      variable: 'DATABASE_URL',
      protocols: ['postgres:', 'postgresql:'],
      describes: 'PostgreSQL 14 or newer',
    }),
    poolSizeMax: integer({
      variable: 'DATABASE_POOL_SIZE_MAX',
      fallback: 10,
      min: 2,
      max: 500,
      describes: 'Connections one process opens at most',
    }),
    connectTimeoutMs: integer({
      variable: 'DATABASE_CONNECT_TIMEOUT_MS',
      fallback: 5000,
      min: 100,
      max: 120_000,
      describes: 'Time to get a connection',
    }),
    statementTimeoutMs: integer({
      variable: 'DATABASE_STATEMENT_TIMEOUT_MS',
      fallback: 30_000,
      min: 100,
      max: 3_600_000,
      describes: 'Time one statement may take',
    }),
    idleTransactionTimeoutMs: integer({
      variable: 'DATABASE_IDLE_TRANSACTION_TIMEOUT_MS',
      fallback: 10_000,
      min: 1000,
      max: 3_600_000,
      describes:
        'Time a process may leave a transaction without a statement before its locks are taken from it',
    }),
  },
  kafka: {
    brokers: optionalBrokers({ variable: 'KAFKA_BROKERS', describes: 'Kafka bootstrap brokers' }),
    connectTimeoutMs: integer({
      variable: 'KAFKA_CONNECT_TIMEOUT_MS',
      fallback: 5000,
      min: 100,
      max: 120_000,
      describes: 'Time to reach a broker',
    }),
    requestTimeoutMs: integer({
      variable: 'KAFKA_REQUEST_TIMEOUT_MS',
      fallback: 30_000,
      min: 1000,
      max: 300_000,
      describes: 'Time one request to a broker may take',
    }),
    // Longer than a cluster takes by default to find out that a broker is gone and to choose new leaders (9 s).
    produceTimeoutMs: integer({
      variable: 'KAFKA_PRODUCE_TIMEOUT_MS',
      fallback: 12_000,
      min: 1000,
      max: 300_000,
      describes: 'Time a leader has to store a batch; after that the brokers are asked who leads now',
    }),
    // At least once: kafkajs refuses every record of a producer that is to be idempotent and may not try again.
    retriesMax: integer({
      variable: 'KAFKA_RETRIES_MAX',
      fallback: 3,
      min: 1,
      max: 100,
      describes: 'Times a request is tried again',
    }),
    retryDelayMs: integer({
      variable: 'KAFKA_RETRY_DELAY_MS',
      fallback: 1000,
      min: 10,
      max: 60_000,
      describes: 'Pause between two tries',
    }),
    inFlightMax: integer({
      variable: 'KAFKA_IN_FLIGHT_MAX',
      fallback: 5,
      min: 1,
      max: 5,
      describes: 'Producer requests under way at once',
    }),
  },
  commands: {
    conflictRetriesMax: integer({
      variable: 'COMMAND_CONFLICT_RETRIES_MAX',
      fallback: 10,
      min: 0,
      max: 1000,
      describes: 'Times a command that lost a race is decided again',
    }),
    batchSizeMax: integer({
      variable: 'COMMAND_BATCH_SIZE_MAX',
      fallback: 100,
      min: 1,
      max: 1000,
      describes: 'Commands that share one transaction at most',
    }),
    batchesMax: integer({
      variable: 'COMMAND_BATCHES_MAX',
      fallback: 2,
      min: 1,
      max: 100,
      describes: 'Command transactions under way at once in one process',
    }),
    queueMax: integer({
      variable: 'COMMAND_QUEUE_MAX',
      fallback: 10_000,
      min: 1,
      max: 1_000_000,
      describes: 'Commands that may wait before further ones are refused',
    }),
    announceIntervalMs: integer({
      variable: 'COMMAND_ANNOUNCE_INTERVAL_MS',
      fallback: 10,
      min: 1,
      max: 60_000,
      describes: 'Shortest time between two signals to relays in other processes',
    }),
    idempotencyRetentionMs: integer({
      variable: 'IDEMPOTENCY_RETENTION_MS',
      fallback: day_ms,
      min: 1000,
      max: 90 * day_ms,
      describes: 'Time a request can be repeated and gets its first answer again',
    }),
  },
  consistency: {
    lookIntervalMs: integer({
      variable: 'CONSISTENCY_LOOK_INTERVAL_MS',
      fallback: 20,
      min: 1,
      max: 10_000,
      describes: 'Time between two looks for events that queries with a token wait for, all of them together',
    }),
    waitersMax: integer({
      variable: 'CONSISTENCY_WAITERS_MAX',
      fallback: 10_000,
      min: 1,
      max: 1_000_000,
      describes: 'Queries that may wait in one process before further ones are refused',
    }),
  },
  topics: {
    prefix: {
      ...text({
        variable: 'TOPIC_PREFIX',
        fallback: '',
        describes: 'Put before every topic name, so that several systems can share a cluster',
      }),
      parse: (value: string) => (/^[a-zA-Z0-9._-]{0,100}$/.test(value) ? value : undefined),
      allowed: 'letters, digits, dot, dash and underscore, at most 100',
    },
    partitions: integer({
      variable: 'TOPIC_PARTITIONS',
      fallback: 3,
      min: 1,
      max: 1000,
      describes: 'Partitions of an event topic',
    }),
    retentionMs: integer({
      variable: 'TOPIC_RETENTION_MS',
      fallback: 7 * day_ms,
      min: 60_000,
      max: 3650 * day_ms,
      describes: 'Retention of an event topic',
    }),
    dlqRetentionMs: integer({
      variable: 'DLQ_RETENTION_MS',
      fallback: 30 * day_ms,
      min: 60_000,
      max: 3650 * day_ms,
      describes: 'Retention of a dead-letter topic',
    }),
    replicationFactorMax: integer({
      variable: 'TOPIC_REPLICATION_FACTOR_MAX',
      fallback: 3,
      min: 1,
      max: 10,
      describes: 'Copies of each partition; never more than there are brokers',
    }),
  },
  deadLetters: {
    replaysMax: integer({
      variable: 'DLQ_REPLAYS_MAX',
      fallback: 5,
      min: 1,
      max: 1000,
      describes: 'Times one record is replayed from the dead letters for one projection, unless forced',
    }),
  },
  registry: {
    url: optionalUrl({
      variable: 'SCHEMA_REGISTRY_URL',
      protocols: ['http:', 'https:'],
      describes: 'Base of a Confluent-compatible schema registry',
    }),
    requestTimeoutMs: integer({
      variable: 'SCHEMA_REGISTRY_REQUEST_TIMEOUT_MS',
      fallback: 5000,
      min: 100,
      max: 120_000,
      describes: 'Time one request to the registry may take',
    }),
    compatibility: oneOf({
      variable: 'SCHEMA_COMPATIBILITY',
      fallback: 'FULL_TRANSITIVE',
      values: [
        'FULL_TRANSITIVE',
        'FULL',
        'BACKWARD_TRANSITIVE',
        'BACKWARD',
        'FORWARD_TRANSITIVE',
        'FORWARD',
        'NONE',
      ],
      describes: 'What a changed schema must be able to read, or be read by',
    }),
  },
  redis: {
    url: optionalUrl({
      variable: 'REDIS_URL',
      protocols: ['redis:', 'rediss:'],
      describes: 'Redis for caches; without it the cache lives in the process',
    }),
    connectTimeoutMs: integer({
      variable: 'REDIS_CONNECT_TIMEOUT_MS',
      fallback: 2000,
      min: 100,
      max: 120_000,
      describes: 'Time to reach Redis',
    }),
    answerTimeoutMs: integer({
      variable: 'REDIS_ANSWER_TIMEOUT_MS',
      fallback: 100,
      min: 1,
      max: 60_000,
      describes: 'Time Redis has to answer a query before the database is asked instead',
    }),
  },
  productCache: {
    ttlMs: integer({
      variable: 'PRODUCT_CACHE_TTL_MS',
      fallback: 60_000,
      min: 1,
      max: day_ms,
      describes: 'Time a product stays in Redis at most; changes take it out at once',
    }),
    localTtlMs: integer({
      variable: 'PRODUCT_CACHE_LOCAL_TTL_MS',
      fallback: 1000,
      min: 1,
      max: 60_000,
      describes: 'The same without Redis, where a process does not hear of every change',
    }),
    localEntriesMax: integer({
      variable: 'PRODUCT_CACHE_LOCAL_ENTRIES_MAX',
      fallback: 10_000,
      min: 1,
      max: 10_000_000,
      describes: 'Products one process keeps without Redis',
    }),
  },
  live: liveSettings,
  relay: relaySettings,
  metrics: {
    intervalMs: integer({
      variable: 'METRICS_OUTBOX_INTERVAL_MS',
      fallback: 5000,
      min: 0,
      max: 600_000,
      describes: 'Shortest time between two looks at the outbox for /metrics',
    }),
    timeoutMs: integer({
      variable: 'METRICS_OUTBOX_TIMEOUT_MS',
      fallback: 2000,
      min: 10,
      max: 60_000,
      describes: 'Time the outbox has to answer for /metrics before its figures are left out',
    }),
  },
  streams: streamsSettings,
  rebuild: rebuildSettings,
} as const satisfies Record<string, Record<string, Setting<unknown>>>;

export type Settings = typeof settings;
type ValueOf<S> = S extends Setting<infer T> ? T : never;

/** The settings' values, by group and name. */
export type Config = {
  readonly [Group in keyof Settings]: {
    readonly [Name in keyof Settings[Group]]: ValueOf<Settings[Group][Name]>;
  };
};
