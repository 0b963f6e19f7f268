import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { orderId, paymentId, productId, userId } from '../../../src/domain/ids.ts';
import type { OrderPaid } from '../../../src/domain/order/order.ts';
import { orderView } from '../../../src/projections/order-view.ts';
import { type ChangedProduct, productCache } from '../../../src/projections/product-cache.ts';
import { productStatistic } from '../../../src/projections/product-statistic.ts';
import { productTrend } from '../../../src/projections/product-trend.ts';
import { stockLevel } from '../../../src/projections/stock-level.ts';
import { CommerceDriver } from '../../support/commerce-driver.ts';

const stockEvents = { topic: 'stock-events' };
const likeEvents = { topic: 'like-events' };
const orderEvents = { topic: 'order-events' };
const viewEvents = { topic: 'product-view-events' };
const mill = productId('mill');
const sieve = productId('sieve');

const viewed = { type: 'ProductViewed', productId: mill, userId: null } as const;
const liked = { type: 'LikeCreated', productId: mill, userId: userId('ann') } as const;
const unliked = { ...liked, type: 'LikeCanceled' } as const;
const orderFacts = {
  orderId: orderId('o1'),
  userId: userId('ann'),
  items: [
    { productId: mill, quantity: 2, unitPriceMinor: 100 },
    { productId: sieve, quantity: 1, unitPriceMinor: 50 },
  ],
  total: { amountMinor: 250, currency: 'EUR' },
};
const created = { type: 'OrderCreated', ...orderFacts } as const;
const paid: OrderPaid = { type: 'OrderPaid', ...orderFacts, paymentId: paymentId('p1') };
const registered = {
  type: 'ProductRegistered',
  productId: mill,
  name: 'Mill',
  price: { amountMinor: 4900, currency: 'EUR' },
  stock: 3,
} as const;
const reserved = {
  type: 'StockReserved',
  productId: mill,
  orderId: orderId('o1'),
  quantity: 3,
  stock: 0,
} as const;
const depleted = { type: 'StockDepleted', productId: mill } as const;

describe('product-statistic', () => {
  const build = () =>
    new CommerceDriver(productStatistic({ stockEvents, likeEvents, orderEvents, viewEvents }));

  it('counts likes, sales by quantity and views, whatever comes again', async () => {
    const driver = build();
    driver.tell(registered, { aggregateId: 'mill' });
    for (let index = 0; index < 3; index++) driver.tell(viewed, { aggregateId: `mill_${index}` });
    driver.tell(liked, { aggregateId: 'mill_ann', version: 1 });
    driver.tell(unliked, { aggregateId: 'mill_ann', version: 2 });
    driver.tell(liked, { aggregateId: 'mill_ann', version: 3 });
    driver.tell(paid, { aggregateId: 'o1', version: 2 });
    await driver.run();
    driver.redeliver();
    await driver.run();
    driver.restart();
    driver.redeliver();
    await driver.run();
    expect(driver.table('product_statistic')).to.have.deep.members([
      { product_id: 'mill', like_count: 1, sales_count: 2, view_count: 3 },
      { product_id: 'sieve', like_count: 0, sales_count: 1, view_count: 0 },
    ]);
  });

  it('counts an order once, though a second event says on another day that it was paid', async () => {
    const driver = build();
    driver.tell(paid, { aggregateId: 'o1', version: 2 });
    await driver.run();
    driver.tell(paid, { aggregateId: 'o1', version: 3, time: 1_700_000_000_000 + 3 * 86_400_000 });
    await driver.run();
    expect(driver.table('product_statistic').map(({ sales_count }) => sales_count)).to.have.members([2, 1]);
  });
});

describe('product-trend', () => {
  it('counts in every window that an event falls into, and not in those that are long over', async () => {
    const driver = new CommerceDriver(productTrend({ likeEvents, orderEvents, viewEvents }));
    const time = Date.UTC(2026, 0, 1, 12, 2);
    driver.tell(viewed, { aggregateId: 'mill_1', time });
    driver.tell(liked, { aggregateId: 'mill_ann', time });
    driver.tell(paid, { aggregateId: 'o1', time });
    await driver.run();
    const rows = driver.table('product_trend').filter(({ product_id }) => product_id === 'mill');
    expect(rows).to.have.length(12);
    expect(
      rows.every((row) => row.view_count === 1 && row.like_count === 1 && row.sales_count === 2),
    ).to.equal(true);
    const starts = rows.map(({ window_start }) => Number(window_start));
    expect(Math.max(...starts)).to.equal(Date.UTC(2026, 0, 1, 12, 0));
    expect(Math.min(...starts)).to.equal(Date.UTC(2026, 0, 1, 11, 5));

    driver.tell(viewed, { aggregateId: 'mill_2', time: time + 4 * 3_600_000 });
    driver.tell(viewed, { aggregateId: 'mill_3', time });
    await driver.run();
    expect(driver.lateRecords).to.equal(1);
  });
});

describe('order-view', () => {
  const build = () => new CommerceDriver(orderView({ orderEvents }));

  it('is the order as its buyer sees it, with its history', async () => {
    const driver = build();
    const ids = [uuidv7(), uuidv7()] as const;
    driver.tell(created, { aggregateId: 'o1', version: 1, id: ids[0] });
    driver.tell(paid, { aggregateId: 'o1', version: 2, id: ids[1] });
    driver.redeliver();
    await driver.run();
    const [row] = driver.table('order');
    expect(row).to.include({
      key: 'o1',
      user_id: 'ann',
      status: 'paid',
      total_minor: 250,
      payment_id: 'p1',
      version: 2,
    });
    expect(row?.history).to.deep.equal([
      {
        version: 1,
        event: 'loopers.order.created.v1',
        at: '2023-11-14T22:13:20.000Z',
        eventId: ids[0],
        data: { ...orderFacts },
      },
      {
        version: 2,
        event: 'loopers.order.paid.v1',
        at: '2023-11-14T22:13:20.000Z',
        eventId: ids[1],
        data: { ...orderFacts, paymentId: 'p1' },
      },
    ]);
  });

  it('waits for a version that is missing, and says for which', async () => {
    const driver = build();
    driver.tell(paid, { aggregateId: 'o1', version: 2 });
    await driver.run();
    expect(driver.table('order')).to.deep.equal([]);
    expect(driver.table('order-versions')[0]).to.deep.include({ key: 'o1', next: 1 });
    driver.tell(created, { aggregateId: 'o1', version: 1 });
    await driver.run();
    expect(driver.table('order')[0]).to.include({ status: 'paid', version: 2 });
  });
});

describe('stock-level', () => {
  it('follows name, price and stock of a product', async () => {
    const driver = new CommerceDriver(stockLevel({ stockEvents }));
    driver.tell(registered, { aggregateId: 'mill', version: 1 });
    driver.tell(reserved, { aggregateId: 'mill', version: 2 });
    driver.tell(depleted, { aggregateId: 'mill', version: 3 });
    await driver.run();
    expect(driver.table('stock')[0]).to.include({
      key: 'mill',
      name: 'Mill',
      price_minor: 4900,
      stock: 0,
      version: 3,
    });
  });
});

describe('product-cache', () => {
  it('forgets a product that has changed, once per batch and up to its newest version', async () => {
    const forgotten: ChangedProduct[][] = [];
    const cache = {
      forget: async (products: readonly ChangedProduct[]) => void forgotten.push([...products]),
    };
    const driver = new CommerceDriver(productCache({ stockEvents }, cache));
    driver.tell(registered, { aggregateId: 'mill', version: 1 });
    await driver.run();
    driver.tell(reserved, { aggregateId: 'mill', version: 2 });
    driver.tell(depleted, { aggregateId: 'mill', version: 3 });
    await driver.run();
    expect(forgotten).to.deep.equal([
      [{ productId: 'mill', version: 1 }],
      [{ productId: 'mill', version: 3 }],
    ]);
  });
});
