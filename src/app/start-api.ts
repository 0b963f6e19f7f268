import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { v7 as uuidv7 } from 'uuid';
import type { Access } from '../auth/access.ts';
import { createBoundedSet } from '../commands/bounded-set.ts';
import { CommandExecutor } from '../commands/command-executor.ts';
import { createCommands } from '../commands/commands.ts';
import type { Config } from '../config/settings.ts';
import type { WaitingRoomObserver } from '../consistency/waiting-room.ts';
import type { ApiOptions } from '../http/api.ts';
import { createAnnouncer } from '../journal/announce-events.ts';
import { purgeAnswers } from '../journal/idempotency-keys.ts';
import { createWriterSchemas } from '../journal/writer-schemas.ts';
import { createLiveUpdates, type LiveObserver } from '../live/live-updates.ts';
import { changesChannel } from '../live/read-changes.ts';
import { createOutboxAdmin } from '../outbox-admin/outbox-admin.ts';
import type { Database } from '../postgres/database.ts';
import { listenTo } from '../postgres/listen.ts';
import { type CachedProductsOptions, createCachedProducts } from '../product-cache/cached-products.ts';
import type { ProductCache } from '../product-cache/product-cache.ts';
import { createQueries } from '../read-model/queries.ts';
import type { Adapters } from './adapters.ts';
import { consistencyOf } from './consistency.ts';
import { deadLetterAdminOf } from './dead-letter-admin.ts';
import { createHistories } from './histories.ts';
import { projectionAdminOf } from './projection-admin.ts';
import { relayAdminOf } from './relay-admin.ts';
import { serviceName } from './service-name.ts';
import type { Part } from './start-app.ts';

/** Products known to exist, so that a view need not ask for its product each time. */
const knownStreamsMax = 100_000;
/** For who reads a product in another process; far longer than reading one takes. */
const cachePatienceMs = 300;
const purgeIntervalMs = 60 * 60 * 1000;
const purgeBatchMax = 1000;

export interface Api extends Part {
  readonly options: ApiOptions;
}

/** What the HTTP routes are built on: the write side, the queries, and who may call. */
export const startApi = (options: {
  adapters: Adapters;
  access: Access;
  cache: ProductCache;
  cacheObserver: CachedProductsOptions['observer'];
  waitingObserver: WaitingRoomObserver;
  config: Config;
  log: Logger;
  databaseUrl: string;
  liveObserver: LiveObserver;
  wakeRelay: () => void;
}): Api => {
  const { config, log, wakeRelay } = options;
  const { database } = options.adapters;
  const schemas = createWriterSchemas(database);
  const announcer = createAnnouncer(database, { intervalMs: config.commands.announceIntervalMs, log });
  const executor = new CommandExecutor({
    database,
    schemas,
    source: serviceName,
    clock: () => new Date(),
    newEventId: uuidv7,
    idempotencyRetentionMs: config.commands.idempotencyRetentionMs,
    begunStreams: createBoundedSet(knownStreamsMax),
    settings: config.commands,
    log: log.child({ part: 'commands' }),
    onCommitted: () => {
      wakeRelay();
      announcer.announce();
    },
  });
  const queries = createQueries(database);
  const getProduct = createCachedProducts({
    cache: options.cache,
    load: queries.getProduct,
    patienceMs: cachePatienceMs,
    observer: options.cacheObserver,
  });
  const live = createLiveUpdates({
    database,
    listen: (onNews) =>
      listenTo({
        url: options.databaseUrl,
        channel: changesChannel,
        connectTimeoutMs: config.database.connectTimeoutMs,
        onNotify: () => onNews(),
        log,
      }),
    settings: config.live,
    observer: options.liveObserver,
    log: log.child({ part: 'live' }),
  });
  const stopPurging = purgeAnswersNowAndThen(database, config, log);
  return {
    options: {
      commands: createCommands(executor, { newId: randomUUID, newEventId: uuidv7 }),
      queries: { ...queries, getProduct },
      consistency: consistencyOf({
        database,
        config,
        observer: options.waitingObserver,
        log: log.child({ part: 'queries' }),
      }),
      histories: createHistories(database, schemas),
      live,
      outbox: createOutboxAdmin(database),
      relay: relayAdminOf(database, config),
      projections: projectionAdminOf(database, config),
      deadLetters: deadLetterAdminOf(options.adapters, config),
      newCorrelationId: randomUUID,
      authenticate: options.access.authenticate,
      rateLimits: config.rateLimits,
      requireIfMatch: config.http.requireIfMatch,
    },
    stop: async () => {
      stopPurging();
      await live.close();
      await executor.drained();
    },
  };
};

/** Answers to requests that nobody repeats any more go in small bites. */
const purgeAnswersNowAndThen = (database: Database, config: Config, log: Logger): (() => void) => {
  const purge = async (): Promise<void> => {
    const retentionMs = config.commands.idempotencyRetentionMs;
    try {
      const purged = await purgeAnswers(database, { retentionMs, batchMax: purgeBatchMax });
      if (purged > 0) log.debug({ purged }, 'Expired idempotency keys were dropped');
    } catch (error) {
      log.warn({ err: error }, 'Expired idempotency keys could not be dropped; the next try is in an hour');
    }
  };
  const timer = setInterval(() => void purge(), purgeIntervalMs);
  return () => clearInterval(timer);
};
