import type { Logger } from 'pino';
import { createClient } from 'redis';
import { cacheKeyOf, type ProductCache } from './product-cache.ts';

export interface RedisProductCacheOptions {
  readonly url: string;
  /** Systems that share a Redis have different prefixes. */
  readonly prefix: string;
  readonly connectTimeoutMs: number;
  readonly log: Logger;
}

/** Connects when it is first needed, and again by itself; while Redis does not answer, calls fail instead of waiting. */
export const createRedisProductCache = ({
  url,
  prefix,
  connectTimeoutMs,
  log,
}: RedisProductCacheOptions): ProductCache => {
  const client = createClient({
    url,
    disableOfflineQueue: true,
    socket: { connectTimeout: connectTimeoutMs },
  });
  client.on('error', (error: Error) => log.debug({ err: error }, 'Redis does not answer'));
  let connecting: Promise<unknown> | undefined;

  const connected = async (): Promise<typeof client> => {
    connecting ??= client.connect();
    await connecting.catch((error: unknown) => {
      connecting = undefined;
      throw error;
    });
    return client;
  };

  return {
    forget: async (productIds) => {
      if (productIds.length === 0) return;
      await (await connected()).unlink(productIds.map((id) => cacheKeyOf(prefix, id)));
    },
    close: async () => {
      if (client.isOpen) client.destroy();
    },
  };
};
