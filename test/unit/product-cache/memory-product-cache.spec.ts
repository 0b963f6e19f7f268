import { expect } from 'chai';
import { createMemoryProductCache } from '../../../src/product-cache/memory-product-cache.ts';
import { holdsForProductCaches, productOf, unhurried } from '../../support/product-cache-contract.ts';

describe('the cache of products in the process', () => {
  holdsForProductCaches((times) =>
    createMemoryProductCache({ ...times, entriesMax: 10_000, clock: () => performance.now() }),
  );

  it('holds so many and no more: the oldest goes first', async () => {
    const cache = createMemoryProductCache({ ...unhurried, entriesMax: 2, clock: () => 0 });
    for (const id of ['a', 'b', 'a', 'c']) await cache.keep(productOf(id, 1), '');
    const kinds = await Promise.all(['a', 'b', 'c'].map(async (id) => (await cache.find(id)).kind));
    expect(kinds).to.deep.equal(['found', 'load', 'found']);
  });
});
