import { expect } from 'chai';
import fc from 'fast-check';
import { productId, userId } from '../../../src/domain/ids.ts';
import { productMomentum } from '../../../src/projections/product-momentum.ts';
import { CommerceDriver } from '../../support/commerce-driver.ts';

const minute_ms = 60_000;
/** Where a window begins. */
const startMs = 1_699_999_920_000;
const at = (minutes: number): number => startMs + Math.round(minutes * minute_ms);
const iso = (minutes: number): string => new Date(at(minutes)).toISOString();

describe('product-momentum', () => {
  const build = (seed = 1) =>
    new CommerceDriver(
      productMomentum({ likeEvents: { topic: 'like-events' }, viewEvents: { topic: 'product-view-events' } }),
      { seed },
    );
  const view = (driver: CommerceDriver, product: string, minutes: number): void =>
    driver.tell(
      { type: 'ProductViewed', productId: productId(product), userId: null },
      { aggregateId: `${product}_1`, time: at(minutes) },
    );
  const like = (driver: CommerceDriver, product: string, minutes: number): void =>
    driver.tell(
      { type: 'LikeCreated', productId: productId(product), userId: userId('ann') },
      { aggregateId: `${product}_ann`, time: at(minutes) },
    );
  const rowOf = (driver: CommerceDriver, product: string) =>
    driver.table('product-momentum').find(({ key }) => key === product);
  /** The first look asks what the relay still holds, the next ones go by the answer. */
  const passUntil = async (driver: CommerceDriver, minutes: number): Promise<void> => {
    await driver.advanceWallClock(at(minutes) - driver.nowMs);
    await driver.advanceWallClock(0);
  };

  it('tells at once how often a product was seen and liked in the ten minutes up to its latest event', async () => {
    const driver = build();
    view(driver, 'mill', 0.5);
    await driver.run();
    expect(rowOf(driver, 'mill')).to.deep.equal({
      key: 'mill',
      window_start: iso(-8),
      window_end: iso(2),
      closes_at: iso(3),
      view_count: 1,
      like_count: 0,
    });
    view(driver, 'mill', 4);
    like(driver, 'mill', 9.2);
    view(driver, 'mill', 9.9);
    await driver.run();
    expect(rowOf(driver, 'mill')).to.include({ window_start: iso(0), view_count: 3, like_count: 1 });
    view(driver, 'mill', 10);
    await driver.run();
    expect(rowOf(driver, 'mill'), 'the first one is more than ten minutes ago').to.include({
      window_start: iso(2),
      window_end: iso(12),
      view_count: 3,
    });
  });

  it('counts what comes again once, and what comes late where it belongs', async () => {
    const driver = build();
    view(driver, 'mill', 5);
    await driver.run();
    view(driver, 'mill', 4.5);
    await driver.run();
    driver.redeliver();
    driver.restart();
    await driver.run();
    expect(rowOf(driver, 'mill')).to.include({ window_end: iso(6), view_count: 2 });
  });

  it('forgets a product of which nothing is heard, by the wall clock', async () => {
    const driver = build();
    view(driver, 'mill', 0.5);
    await driver.run();
    await passUntil(driver, 2.9);
    expect(rowOf(driver, 'mill')).to.include({ view_count: 1 });
    driver.relayHolds(at(2.5));
    await passUntil(driver, 3.5);
    expect(rowOf(driver, 'mill'), 'the relay may still hold something').to.include({ view_count: 1 });
    driver.relayHolds(undefined);
    await passUntil(driver, 3.6);
    expect(driver.table('product-momentum')).to.deep.equal([]);
    view(driver, 'mill', 6);
    await driver.run();
    expect(rowOf(driver, 'mill'), 'what was before still counts').to.include({ view_count: 2 });
    for (let look = 0; look < 3; look++) await passUntil(driver, 60);
    expect(driver.table('product-momentum')).to.deep.equal([]);
    expect(driver.store.statesOf('product-momentum-windows').size).to.equal(0);
  });

  it('has the rows that the events say, whatever their order and batches: those of products that were heard of just now', async () => {
    const event = fc.record({
      stepMs: fc.integer({ min: -20_000, max: 90_000 }),
      product: fc.constantFrom('mill', 'pot', 'cup'),
      isLike: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(event, { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 1000 }),
        async (given, seed) => {
          let minutes = 0;
          const events = given.map(({ stepMs, ...rest }) => {
            minutes = Math.max(0, minutes + stepMs / minute_ms);
            return { ...rest, minutes, timeMs: at(minutes) };
          });
          const driver = build(seed);
          for (const [index, { product, isLike, minutes: when }] of events.entries()) {
            if (isLike) like(driver, product, when);
            else view(driver, product, when);
            if ((index + seed) % 4 === 0) await driver.run();
          }
          await driver.run();
          // Every partition has a time of its own; the last look brings all of them to now.
          await passUntil(driver, Math.max(...events.map((one) => one.minutes)));
          expect(driver.lateRecords).to.equal(0);
          const nowMs = Math.max(...events.map(({ timeMs }) => timeMs));
          const rows = [...Map.groupBy(events, ({ product }) => product)].flatMap(([key, own]) => {
            const latestMs = Math.max(...own.map(({ timeMs }) => timeMs));
            const endMs = (Math.floor(latestMs / (2 * minute_ms)) + 1) * 2 * minute_ms;
            const inWindow = own.filter(({ timeMs }) => timeMs >= endMs - 10 * minute_ms);
            if (endMs + minute_ms <= nowMs) return [];
            const likes = inWindow.filter(({ isLike }) => isLike).length;
            return [
              {
                key,
                window_start: new Date(endMs - 10 * minute_ms).toISOString(),
                window_end: new Date(endMs).toISOString(),
                closes_at: new Date(endMs + minute_ms).toISOString(),
                view_count: inWindow.length - likes,
                like_count: likes,
              },
            ];
          });
          expect(driver.table('product-momentum')).to.have.deep.members(rows);
        },
      ),
      { numRuns: 100 },
    );
  });
});
