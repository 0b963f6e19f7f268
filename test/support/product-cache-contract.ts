import { expect } from 'chai';
import fc from 'fast-check';
import type { CacheTimes, ProductCache } from '../../src/product-cache/product-cache.ts';
import type { Product } from '../../src/read-model/get-product.ts';
import { eventually } from './eventually.ts';

export const productOf = (productId: string, version: number): Product => ({
  productId,
  name: 'Mühle, "gut"',
  priceMinor: 4900,
  currency: 'EUR',
  stock: 100 - version,
  version,
  updatedAt: new Date(1_700_000_000_000 + version),
});

/** Long enough that nothing runs out while a spec runs on the slowest machine. */
export const unhurried: CacheTimes = { ttlMs: 600_000, leaseMs: 600_000, changesMs: 600_000 };

let used = 0;
const freshId = (): string => `p-${process.pid}-${++used}`;

/** What holds for every cache of products, in whatever it keeps them. */
export const holdsForProductCaches = (
  open: (times: CacheTimes) => ProductCache | Promise<ProductCache>,
): void => {
  let cache: ProductCache;
  before(async () => {
    cache = await open(unhurried);
  });
  after(() => cache.close());

  const leaseOf = async (of: ProductCache, id: string): Promise<string> => {
    const found = await of.find(id);
    if (found.kind !== 'load') throw new Error(`expected a lease and found ${found.kind}`);
    return found.lease;
  };
  const versionIn = async (id: string): Promise<number | undefined> => {
    const found = await cache.find(id);
    if (found.kind === 'found') return found.product.version;
    if (found.kind === 'load') await cache.release(id, found.lease);
    return undefined;
  };

  it('lets one read what is not there, and the others wait until it is kept', async () => {
    const id = freshId();
    const lease = await leaseOf(cache, id);
    expect(await cache.find(id)).to.deep.equal({ kind: 'wait' });
    await cache.keep(productOf(id, 1), lease);
    expect(await cache.find(id)).to.deep.equal({ kind: 'found', product: productOf(id, 1) });
  });

  it('lets another one read when there was nothing to keep', async () => {
    const id = freshId();
    const lease = await leaseOf(cache, id);
    await cache.release(id, 'somebody else’s');
    expect(await cache.find(id)).to.deep.equal({ kind: 'wait' });
    await cache.release(id, lease);
    await leaseOf(cache, id);
  });

  it('does not take a lease from who got it later', async () => {
    const id = freshId();
    const first = await leaseOf(cache, id);
    await cache.release(id, first);
    await leaseOf(cache, id);
    await cache.release(id, first);
    expect(await cache.find(id)).to.deep.equal({ kind: 'wait' });
  });

  it('forgets what has changed', async () => {
    const id = freshId();
    await cache.keep(productOf(id, 1), await leaseOf(cache, id));
    await cache.forget([
      { productId: id, version: 2 },
      { productId: freshId(), version: 7 },
    ]);
    expect(await versionIn(id)).to.equal(undefined);
  });

  it('does not keep what was read before a change that it has heard of', async () => {
    const id = freshId();
    const lease = await leaseOf(cache, id);
    const readEarlier = productOf(id, 1);
    await cache.forget([{ productId: id, version: 2 }]);
    await cache.keep(readEarlier, lease);
    const again = await leaseOf(cache, id);
    await cache.keep(productOf(id, 2), again);
    expect(await versionIn(id)).to.equal(2);
  });

  it('keeps what is as new as the change, though it hears of the change afterwards or again', async () => {
    const id = freshId();
    await cache.keep(productOf(id, 3), await leaseOf(cache, id));
    await cache.forget([{ productId: id, version: 3 }]);
    await cache.forget([{ productId: id, version: 1 }]);
    expect(await versionIn(id)).to.equal(3);
    await cache.keep(productOf(id, 2), '');
    expect(await versionIn(id)).to.equal(3);
  });

  it('forgets as many at once as a large batch changes', async () => {
    const ids = Array.from({ length: 5000 }, freshId);
    const [first = '', last = ''] = [ids[0], ids.at(-1)];
    for (const id of [first, last]) await cache.keep(productOf(id, 1), '');
    await cache.forget(ids.map((productId) => ({ productId, version: 2 })));
    expect([await versionIn(first), await versionIn(last)]).to.deep.equal([undefined, undefined]);
  });

  it('knows products apart, and does not mind being told nothing', async () => {
    const [one, two] = [freshId(), freshId()];
    await cache.keep(productOf(one, 1), '');
    await cache.forget([]);
    await cache.forget([{ productId: two, version: 1 }]);
    expect(await versionIn(one)).to.equal(1);
  });

  it('shows nothing that is older than what it was told, whatever happens in whatever order', async () => {
    const step = fc.record({
      does: fc.constantFrom('keep', 'forget'),
      version: fc.integer({ min: 1, max: 30 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
        const id = freshId();
        let told = 0;
        for (const { does, version } of steps) {
          if (does === 'keep') await cache.keep(productOf(id, version), '');
          else await cache.forget([{ productId: id, version }]);
          if (does === 'forget') told = Math.max(told, version);
          const shown = await versionIn(id);
          if (shown !== undefined) expect(shown).to.be.at.least(told);
          if (does === 'keep' && version >= told) expect(shown).to.be.at.least(version);
        }
      }),
      { numRuns: 50 },
    );
  });

  it('keeps products, leases and changes no longer than it may', async () => {
    const hasty = await open({ ...unhurried, ttlMs: 30, leaseMs: 30 });
    const forgetful = await open({ ...unhurried, changesMs: 30 });
    const [kept, leased, changed] = [freshId(), freshId(), freshId()];
    try {
      await hasty.keep(productOf(kept, 5), '');
      await eventually(async () => expect((await hasty.find(kept)).kind).not.to.equal('found'));
      await hasty.find(leased);
      await eventually(async () => expect((await hasty.find(leased)).kind).to.equal('load'));
      await forgetful.forget([{ productId: changed, version: 9 }]);
      await eventually(async () => {
        await forgetful.keep(productOf(changed, 1), '');
        expect((await forgetful.find(changed)).kind).to.equal('found');
      });
    } finally {
      await hasty.close();
      await forgetful.close();
    }
  });
};
