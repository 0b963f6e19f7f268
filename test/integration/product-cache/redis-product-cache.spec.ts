import { expect } from 'chai';
import { type CacheOutcome, createCachedProducts } from '../../../src/product-cache/cached-products.ts';
import type { CacheTimes, ProductCache } from '../../../src/product-cache/product-cache.ts';
import { createRedisProductCache } from '../../../src/product-cache/redis-product-cache.ts';
import { eventually } from '../../support/eventually.ts';
import { hasRedis, useOwnRedis } from '../../support/own-redis.ts';
import { holdsForProductCaches, productOf, unhurried } from '../../support/product-cache-contract.ts';
import { silentLog } from '../../support/silent-log.ts';

if (hasRedis) {
  describe('the cache of products in Redis', function () {
    this.timeout(120_000);
    const redis = useOwnRedis();
    const caches: ProductCache[] = [];
    after(async () => {
      for (const cache of caches) await cache.close();
    });

    /** Connected: the first call of a process finds no connection, which counts as no cache. */
    const open = async (times: CacheTimes, over: { prefix?: string; answerTimeoutMs?: number } = {}) => {
      const cache = createRedisProductCache({
        url: redis.url(),
        prefix: over.prefix ?? '',
        connectTimeoutMs: 20_000,
        answerTimeoutMs: over.answerTimeoutMs ?? 20_000,
        ...times,
        log: silentLog(),
      });
      caches.push(cache);
      await cache.forget([{ productId: 'first-call', version: 1 }]);
      return cache;
    };
    const openQueries = async (cache: ProductCache, version: () => number) => {
      const outcomes: CacheOutcome[] = [];
      const ask = createCachedProducts({
        cache,
        patienceMs: 60_000,
        load: async (id) => productOf(id, version()),
        observer: { answered: (outcome) => void outcomes.push(outcome) },
      });
      return { ask, outcomes };
    };

    holdsForProductCaches((times) => open(times));

    it('is shared by processes, and not by systems with another prefix', async () => {
      const [one, two, other] = [
        await open(unhurried),
        await open(unhurried),
        await open(unhurried, { prefix: 'other.' }),
      ];
      await one.keep(productOf('shared', 1), '');
      expect((await two.find('shared')).kind).to.equal('found');
      expect((await other.find('shared')).kind).to.equal('load');
      await two.forget([{ productId: 'shared', version: 2 }]);
      expect((await one.find('shared')).kind).to.equal('load');
    });

    it('is done without while Redis hangs, and used again when it answers', async () => {
      const cache = await open(unhurried, { answerTimeoutMs: 50 });
      const { ask, outcomes } = await openQueries(cache, () => 1);
      await ask('hanging');
      redis.freeze();
      try {
        expect((await ask('hanging'))?.version).to.equal(1);
        expect(outcomes.at(-1)).to.equal('unavailable');
      } finally {
        redis.thaw();
      }
      await eventually(async () => {
        await ask('hanging');
        expect(outcomes.at(-1)).to.equal('hit');
      });
    });

    it('never shows what changed while Redis was away, once the change is told', async () => {
      const [queries, projector] = [await open(unhurried), await open(unhurried)];
      let version = 1;
      const { ask, outcomes } = await openQueries(queries, () => version);
      await ask('away');
      await redis.kill();
      version = 2;
      await eventually(async () => {
        expect((await ask('away'))?.version).to.equal(2);
        expect(outcomes.at(-1)).to.equal('unavailable');
      });
      await redis.start();
      await eventually(() => projector.forget([{ productId: 'away', version: 2 }]));
      await eventually(async () => {
        expect((await ask('away'))?.version).to.equal(2);
        expect(outcomes.at(-1)).to.equal('hit');
      });
    });

    it('tells who has to forget that Redis is not there', async () => {
      const cache = createRedisProductCache({
        url: 'redis://127.0.0.1:1',
        prefix: '',
        connectTimeoutMs: 200,
        answerTimeoutMs: 200,
        ...unhurried,
        log: silentLog(),
      });
      caches.push(cache);
      const failure = await cache.forget([{ productId: 'p', version: 1 }]).catch((error: unknown) => error);
      expect(failure).to.be.instanceOf(Error);
    });
  });
}
