import { expect } from 'chai';
import { orderId, paymentId, productId, userId } from '../../../src/domain/ids.ts';
import { orderReceipt } from '../../../src/projections/order-receipt.ts';
import { CommerceDriver } from '../../support/commerce-driver.ts';

const paidAtMs = 1_700_000_000_000;

describe('order-receipt', () => {
  const build = (seed = 1) =>
    new CommerceDriver(
      orderReceipt({ orderEvents: { topic: 'order-events' }, stockEvents: { topic: 'stock-events' } }),
      { seed },
    );
  const register = (driver: CommerceDriver, product: string, name: string): void =>
    driver.tell(
      {
        type: 'ProductRegistered',
        productId: productId(product),
        name,
        price: { amountMinor: 250, currency: 'EUR' },
        stock: 5,
      },
      { aggregateId: product },
    );
  const reserve = (driver: CommerceDriver, product: string): void =>
    driver.tell(
      { type: 'StockReserved', productId: productId(product), orderId: orderId('o1'), quantity: 1, stock: 4 },
      { aggregateId: product, version: 2 },
    );
  const pay = (driver: CommerceDriver, order: string, products: readonly string[]): void =>
    driver.tell(
      {
        type: 'OrderPaid',
        orderId: orderId(order),
        userId: userId('ann'),
        items: products.map((product, index) => ({
          productId: productId(product),
          quantity: index + 1,
          unitPriceMinor: 250,
        })),
        total: { amountMinor: 750, currency: 'EUR' },
        paymentId: paymentId('p1'),
      },
      { aggregateId: order, version: 2, time: paidAtMs },
    );
  const line = (product_id: string, name: string | null, quantity: number) => ({
    product_id,
    name,
    quantity,
    unit_price_minor: 250,
  });
  const receipt = (lines: readonly unknown[], line_count = lines.length) => ({
    key: 'o1',
    user_id: 'ann',
    payment_id: 'p1',
    total_minor: 750,
    currency: 'EUR',
    line_count,
    lines,
    paid_at: new Date(paidAtMs).toISOString(),
  });

  it('names the products, in the order of the lines, whatever comes again', async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const driver = build(seed);
      register(driver, 'mill', 'Mill');
      register(driver, 'flour', 'Flour');
      await driver.run();
      reserve(driver, 'mill');
      pay(driver, 'o1', ['flour', 'mill']);
      await driver.run();
      driver.redeliver();
      driver.restart();
      await driver.run();
      expect(driver.table('order-receipt')).to.deep.equal([
        receipt([line('flour', 'Flour', 1), line('mill', 'Mill', 2)]),
      ]);
      expect(driver.deadLetters).to.deep.equal([]);
    }
  });

  it('leaves the name open where the product is not known', async () => {
    const driver = build();
    register(driver, 'mill', 'Mill');
    await driver.run();
    pay(driver, 'o1', ['mill', 'unheard-of', 'mill']);
    await driver.run();
    driver.restart();
    await driver.advanceWallClock(5000);
    expect(driver.table('order-receipt')).to.deep.equal([
      receipt([line('mill', 'Mill', 1), line('unheard-of', null, 2), line('mill', 'Mill', 3)]),
    ]);
  });

  it('waits for a product that comes a moment later, and keeps the order of the lines', async () => {
    const driver = build();
    register(driver, 'mill', 'Mill');
    await driver.run();
    pay(driver, 'o1', ['mill', 'flour', 'mill']);
    await driver.run();
    expect(driver.table('order-receipt')).to.deep.equal([receipt([line('mill', 'Mill', 1)], 3)]);
    register(driver, 'flour', 'Flour');
    await driver.run();
    driver.redeliver();
    await driver.run();
    await driver.advanceWallClock(4999);
    expect(driver.table('order-receipt')).to.deep.equal([receipt([line('mill', 'Mill', 1)], 3)]);
    await driver.advanceWallClock(1);
    expect(driver.table('order-receipt')).to.deep.equal([
      receipt([line('mill', 'Mill', 1), line('flour', 'Flour', 2), line('mill', 'Mill', 3)]),
    ]);
    expect(driver.store.statesOf('receipt-names').size).to.equal(0);
  });
});
