import type { Logger } from 'pino';
import type { Config } from '../config/settings.ts';
import { createMemoryProductCache } from '../product-cache/memory-product-cache.ts';
import type { ProductCache } from '../product-cache/product-cache.ts';
import { createRedisProductCache } from '../product-cache/redis-product-cache.ts';

/** Longer than a statement that reads a product may take, with the wait for a connection. */
const readingSlackMs = 30_000;
const leaseMs = 2000;

/** One for all that this process does: what its projections forget, its queries do not find. */
export const openProductCache = (config: Config, redisUrl: string | undefined, log: Logger): ProductCache => {
  const { ttlMs, localTtlMs, localEntriesMax } = config.productCache;
  const { statementTimeoutMs, connectTimeoutMs } = config.database;
  const times = { leaseMs, changesMs: statementTimeoutMs + connectTimeoutMs + readingSlackMs };
  return redisUrl
    ? createRedisProductCache({
        url: redisUrl,
        prefix: config.topics.prefix,
        connectTimeoutMs: config.redis.connectTimeoutMs,
        answerTimeoutMs: config.redis.answerTimeoutMs,
        ...times,
        ttlMs,
        log: log.child({ part: 'cache' }),
      })
    : createMemoryProductCache({ ...times, ttlMs: localTtlMs, entriesMax: localEntriesMax, clock: Date.now });
};
