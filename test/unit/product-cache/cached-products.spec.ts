import { expect } from 'chai';
import { type CacheOutcome, createCachedProducts } from '../../../src/product-cache/cached-products.ts';
import { createMemoryProductCache } from '../../../src/product-cache/memory-product-cache.ts';
import type { ProductCache } from '../../../src/product-cache/product-cache.ts';
import type { Product } from '../../../src/read-model/get-product.ts';
import { eventually } from '../../support/eventually.ts';
import { productOf, unhurried } from '../../support/product-cache-contract.ts';

/** A read model that answers when the spec says so. */
const openModel = () => {
  const asked: PromiseWithResolvers<Product | null>[] = [];
  return {
    asked,
    load: (): Promise<Product | null> => {
      const answer = Promise.withResolvers<Product | null>();
      asked.push(answer);
      return answer.promise;
    },
    answer: async (product: Product | null): Promise<void> => {
      await eventually(() => expect(asked).not.to.deep.equal([]));
      asked.shift()?.resolve(product);
    },
  };
};

describe('products through the cache', () => {
  let cache: ProductCache;
  let outcomes: CacheOutcome[];
  beforeEach(() => {
    cache = createMemoryProductCache({ ...unhurried, entriesMax: 100, clock: () => 0 });
    outcomes = [];
  });
  /** One of the processes that share the cache. */
  const openProcess = (load: () => Promise<Product | null>, through = cache, patienceMs = 60_000) =>
    createCachedProducts({
      cache: through,
      load,
      patienceMs,
      observer: { answered: (outcome) => void outcomes.push(outcome) },
    });

  it('are read once, however many ask for one at the same time in however many processes', async () => {
    const model = openModel();
    const processes = [openProcess(model.load), openProcess(model.load), openProcess(model.load)];
    const askers = processes.flatMap((ask) => Array.from({ length: 100 }, () => ask('p')));
    await model.answer(productOf('p', 1));
    expect(await Promise.all(askers)).to.deep.equal(Array(300).fill(productOf('p', 1)));
    expect(model.asked).to.deep.equal([]);
    expect(outcomes.toSorted()).to.deep.equal(['read', 'waited', 'waited']);
    expect(await processes[0]?.('p')).to.deep.equal(productOf('p', 1));
    expect(outcomes.at(-1)).to.equal('hit');
  });

  it('are not put back as they were before a change', async () => {
    const model = openModel();
    const ask = openProcess(model.load);
    const early = ask('p');
    await eventually(() => expect(model.asked).to.have.length(1));
    await cache.forget([{ productId: 'p', version: 2 }]);
    await model.answer(productOf('p', 1));
    expect((await early)?.version).to.equal(1);
    const late = ask('p');
    await model.answer(productOf('p', 2));
    expect((await late)?.version).to.equal(2);
  });

  it('are read afresh by who has to see what others may not have seen yet', async () => {
    const model = openModel();
    const ask = openProcess(model.load);
    await cache.keep(productOf('p', 1), '');
    const fresh = ask('p', { afresh: true });
    await model.answer(productOf('p', 2));
    expect((await fresh)?.version).to.equal(2);
    expect((await ask('p'))?.version).to.equal(2);
  });

  it('that do not exist are asked for again by the next, and nobody waits for a lease', async () => {
    const model = openModel();
    const ask = openProcess(model.load);
    for (let turn = 0; turn < 2; turn++) {
      const asked = ask('p');
      await model.answer(null);
      expect(await asked).to.equal(null);
    }
    expect(outcomes).to.deep.equal(['read', 'read']);
  });

  it('are read by everybody for himself when the one with the lease does not come back', async () => {
    await cache.find('p');
    const ask = openProcess(async () => productOf('p', 1), cache, 40);
    expect(await ask('p')).to.deep.equal(productOf('p', 1));
    expect((await cache.find('p')).kind).to.equal('found');
  });

  it('are read without a cache that does not answer, and a failure of the model is told to all', async () => {
    const away = async (): Promise<never> => {
      throw new Error('away');
    };
    const broken = { find: away, keep: away, release: away, forget: away, close: async () => {} };
    expect(await openProcess(async () => productOf('p', 1), broken)('p')).to.deep.equal(productOf('p', 1));
    expect(outcomes).to.deep.equal(['unavailable']);

    const failing = openProcess(() => Promise.reject(new Error('no database')));
    const results = await Promise.allSettled([failing('q'), failing('q')]);
    expect(results.map(({ status }) => status)).to.deep.equal(['rejected', 'rejected']);
    expect(await openProcess(async () => productOf('q', 1))('q')).to.deep.equal(productOf('q', 1));
  });
});
