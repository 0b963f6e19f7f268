import { expect } from 'chai';
import { orderId, productId } from '../../../src/domain/ids.ts';
import { stockOutage } from '../../../src/projections/stock-outage.ts';
import { CommerceDriver } from '../../support/commerce-driver.ts';

const startMs = 1_700_000_000_000;
const hour_ms = 3_600_000;
const at = (hours: number): number => startMs + hours * hour_ms;
const iso = (hours: number): string => new Date(at(hours)).toISOString();
const price = { amountMinor: 250, currency: 'EUR' };

describe('stock-outage', () => {
  const build = (seed = 1) =>
    new CommerceDriver(
      stockOutage({ stockEvents: { topic: 'stock-events' }, overdueAfterMs: 24 * hour_ms }),
      { seed },
    );
  /** Tells a product's events in a row: its version counts them. */
  const productOf = (driver: CommerceDriver, product: string) => {
    let version = 0;
    const next = (hours: number) => ({ aggregateId: product, version: ++version, time: at(hours) });
    const id = productId(product);
    return {
      register: (stock: number, hours: number) =>
        driver.tell({ type: 'ProductRegistered', productId: id, name: 'Mill', price, stock }, next(hours)),
      sellAll: (hours: number) => {
        const sold = { productId: id, orderId: orderId('o1'), quantity: 1, stock: 0 };
        driver.tell({ type: 'StockReserved', ...sold }, next(hours));
        driver.tell({ type: 'StockDepleted', productId: id }, next(hours));
      },
      deliver: (stock: number, hours: number) =>
        driver.tell(
          { type: 'StockAdjusted', productId: id, delta: stock, reason: 'delivery', stock },
          next(hours),
        ),
    };
  };
  const passUntil = (driver: CommerceDriver, hours: number): Promise<void> =>
    driver.advanceWallClock(at(hours) - driver.nowMs);
  const out = (overdueAt: string | null, since = 1) => ({
    key: 'mill',
    name: 'Mill',
    out_since: iso(since),
    overdue_at: overdueAt,
  });
  const rows = (driver: CommerceDriver) => driver.table('stock-outage');

  it('lists a product from when its stock is gone until some is back, whatever comes again', async () => {
    const driver = build();
    const mill = productOf(driver, 'mill');
    mill.register(1, 0);
    await driver.run();
    expect(rows(driver)).to.deep.equal([]);
    mill.sellAll(1);
    await driver.run();
    expect(rows(driver)).to.deep.equal([out(null)]);
    driver.redeliver();
    driver.restart();
    await driver.run();
    expect(rows(driver)).to.deep.equal([out(null)]);
    mill.deliver(5, 2);
    await driver.run();
    await passUntil(driver, 100);
    expect(rows(driver)).to.deep.equal([]);
    expect(driver.deadLetters).to.deep.equal([]);
  });

  it('tells when one has been out of stock for too long, though nothing happens, and once it is back no more', async () => {
    const driver = build();
    const mill = productOf(driver, 'mill');
    mill.register(1, 0);
    mill.sellAll(1);
    await driver.run();
    await passUntil(driver, 25 - 0.001);
    expect(rows(driver)).to.deep.equal([out(null)]);
    driver.restart();
    await passUntil(driver, 25);
    expect(rows(driver)).to.deep.equal([out(iso(25))]);
    mill.deliver(5, 30);
    await driver.run();
    expect(rows(driver)).to.deep.equal([]);
    mill.sellAll(31);
    await driver.run();
    expect(rows(driver)).to.deep.equal([out(null, 31)]);
  });

  it('waits for a delivery that the relay still holds', async () => {
    const driver = build();
    const mill = productOf(driver, 'mill');
    mill.register(0, 1);
    await driver.run();
    expect(rows(driver)).to.deep.equal([out(null)]);
    driver.relayHolds(at(24));
    await passUntil(driver, 26);
    expect(rows(driver)).to.deep.equal([out(null)]);
    mill.deliver(5, 24);
    driver.relayHolds(undefined);
    await driver.run();
    await passUntil(driver, 60);
    expect(rows(driver)).to.deep.equal([]);
  });

  it('comes to the same, however the events are batched', async () => {
    const tell = (driver: CommerceDriver): void => {
      for (const name of ['mill', 'race', 'wheel']) {
        const product = productOf(driver, name);
        product.register(1, 0);
        product.sellAll(1);
        if (name !== 'mill') product.deliver(3, name === 'race' ? 2 : 40);
        if (name === 'race') product.sellAll(41);
      }
    };
    const outcomes = [];
    for (let seed = 1; seed <= 10; seed++) {
      const driver = build(seed);
      tell(driver);
      await driver.run();
      await passUntil(driver, 50);
      outcomes.push([...rows(driver)].sort((a, b) => (String(a.key) < String(b.key) ? -1 : 1)));
    }
    for (const outcome of outcomes)
      expect(outcome).to.deep.equal([out(iso(25)), { ...out(null, 41), key: 'race' }]);
  });
});
