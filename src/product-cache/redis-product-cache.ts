import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Logger } from 'pino';
import { createClient } from 'redis';
import type { Product } from '../read-model/get-product.ts';
import type { CacheTimes, Found, ProductCache } from './product-cache.ts';
import { cacheKeysOf, findProduct, forgetProduct, keepProduct, releaseLease } from './redis-scripts.ts';

export interface RedisProductCacheOptions extends CacheTimes {
  readonly url: string;
  /** Systems that share a Redis have different prefixes. */
  readonly prefix: string;
  readonly connectTimeoutMs: number;
  /** Time for one answer. */
  readonly answerTimeoutMs: number;
  readonly log: Logger;
}

export class CacheUnavailable extends Error {
  override readonly name = 'CacheUnavailable';
}

/** After it did not answer, Redis is left alone for so long: nobody should wait for it again and again. */
const restMs = 1000;
/** Unanswered calls that a Redis which hangs may pile up before further ones fail at once. */
const unansweredMax = 10_000;
/** Changes told at once. */
const changesAtOnce = 500;

/** Connects when it is first needed, and again by itself; while Redis does not answer, calls fail instead of waiting. */
export const createRedisProductCache = (options: RedisProductCacheOptions): ProductCache => {
  const { prefix, ttlMs, leaseMs, changesMs, answerTimeoutMs, connectTimeoutMs, log } = options;
  const client = createClient({
    url: options.url,
    disableOfflineQueue: true,
    commandsQueueMaxLength: unansweredMax,
    socket: { connectTimeout: connectTimeoutMs },
    scripts: { findProduct, keepProduct, releaseLease, forgetProduct },
  });
  let isAway = false;
  const isSilent = (error: unknown): void => {
    if (!isAway) log.warn({ err: error }, 'Redis does not answer: products are read from the database');
    isAway = true;
  };
  const hasAnswered = (): void => {
    if (isAway) log.info('Redis answers again');
    isAway = false;
  };
  client.on('error', isSilent);
  const open = (): void => {
    // It goes on trying by itself; what went wrong is told through the event.
    if (!client.isOpen) client.connect().catch(() => {});
  };

  let restsUntilMs = 0;
  const call = async <T>(perform: () => Promise<T>): Promise<T> => {
    open();
    if (!client.isReady || Date.now() < restsUntilMs) throw new CacheUnavailable('Redis does not answer');
    try {
      const answer = await within(answerTimeoutMs, perform());
      hasAnswered();
      return answer;
    } catch (error) {
      restsUntilMs = Date.now() + restMs;
      isSilent(error);
      throw error;
    }
  };
  const keysOf = (productId: string) => cacheKeysOf(prefix, productId);

  return {
    find: async (productId) => {
      const lease = randomUUID();
      return foundIn(await call(() => client.findProduct(keysOf(productId), lease, leaseMs)), lease);
    },
    keep: async (product, lease) => {
      const { productId, version } = product;
      await call(() => client.keepProduct(keysOf(productId), lease, version, JSON.stringify(product), ttlMs));
    },
    release: async (productId, lease) => {
      await call(() => client.releaseLease(keysOf(productId), lease));
    },
    // Whoever has to tell of a change tries as long as it takes: no rests, and time to connect.
    forget: async (changes) => {
      if (changes.length === 0) return;
      open();
      if (!client.isReady) await once(client, 'ready', { signal: AbortSignal.timeout(connectTimeoutMs) });
      for (let start = 0; start < changes.length; start += changesAtOnce) {
        const told = changes
          .slice(start, start + changesAtOnce)
          .map(({ productId, version }) => client.forgetProduct(keysOf(productId), version, changesMs));
        await within(connectTimeoutMs, Promise.all(told));
      }
      hasAnswered();
    },
    close: async () => {
      if (client.isOpen) client.destroy();
    },
  };
};

const foundIn = (answer: string, lease: string): Found => {
  if (answer === 'wait') return { kind: 'wait' };
  if (answer === 'load') return { kind: 'load', lease };
  const kept = JSON.parse(answer.slice(answer.indexOf('{'))) as Omit<Product, 'updatedAt'> & {
    updatedAt: string;
  };
  return { kind: 'found', product: { ...kept, updatedAt: new Date(kept.updatedAt) } };
};

const within = async <T>(timeoutMs: number, answer: Promise<T>): Promise<T> => {
  // Nobody may be left to hear that it failed.
  answer.catch(() => {});
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new CacheUnavailable(`Redis took more than ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
};
