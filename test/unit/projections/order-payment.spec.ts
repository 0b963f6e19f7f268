import { expect } from 'chai';
import { orderId, paymentId, productId, userId } from '../../../src/domain/ids.ts';
import { orderPayment } from '../../../src/projections/order-payment.ts';
import { CommerceDriver } from '../../support/commerce-driver.ts';

const startMs = 1_700_000_000_000;
const minute_ms = 60_000;
const at = (minutes: number): number => startMs + minutes * minute_ms;
const iso = (minutes: number): string => new Date(at(minutes)).toISOString();

const factsOf = (order: string) => ({
  orderId: orderId(order),
  userId: userId('ann'),
  items: [{ productId: productId('mill'), quantity: 1, unitPriceMinor: 250 }],
  total: { amountMinor: 250, currency: 'EUR' },
});

describe('order-payment', () => {
  const build = (seed = 1) =>
    new CommerceDriver(orderPayment({ orderEvents: { topic: 'order-events' } }), { seed });
  const place = (driver: CommerceDriver, order: string, minutes: number): void =>
    driver.tell({ type: 'OrderCreated', ...factsOf(order) }, { aggregateId: order, time: at(minutes) });
  const pay = (driver: CommerceDriver, order: string, minutes: number): void =>
    driver.tell(
      { type: 'OrderPaid', ...factsOf(order), paymentId: paymentId('p1') },
      { aggregateId: order, version: 2, time: at(minutes) },
    );
  const cancel = (driver: CommerceDriver, order: string, minutes: number): void =>
    driver.tell(
      { type: 'OrderCanceled', ...factsOf(order) },
      { aggregateId: order, version: 2, time: at(minutes) },
    );
  const rowOf = (driver: CommerceDriver, order: string) =>
    driver.table('order-payment').find(({ key }) => key === order);
  /** The clock of a driver begins at zero. */
  const passUntil = (driver: CommerceDriver, minutes: number): Promise<void> =>
    driver.advanceWallClock(at(minutes) - driver.nowMs);

  const paidRow = {
    key: 'o1',
    user_id: 'ann',
    outcome: 'paid',
    total_minor: 250,
    currency: 'EUR',
    created_at: iso(0),
    settled_at: iso(12),
    abandoned_at: null,
  };

  it('tells when an order was paid, whatever comes again', async () => {
    const driver = build();
    place(driver, 'o1', 0);
    await driver.run();
    pay(driver, 'o1', 12);
    await driver.run();
    driver.redeliver();
    driver.restart();
    await driver.run();
    await passUntil(driver, 100);
    expect(driver.table('order-payment')).to.deep.equal([paidRow]);
  });

  it('calls an order abandoned when 30 minutes and the grace are over, and not before', async () => {
    const driver = build();
    place(driver, 'o1', 0);
    await driver.run();
    await passUntil(driver, 35);
    expect(driver.table('order-payment')).to.deep.equal([]);
    await passUntil(driver, 36);
    expect(rowOf(driver, 'o1')).to.deep.equal({
      ...paidRow,
      outcome: 'abandoned',
      settled_at: null,
      abandoned_at: iso(30),
    });
  });

  it('takes an abandoned order that is paid after all for paid, and remembers that it was abandoned', async () => {
    const driver = build();
    place(driver, 'o1', 0);
    await driver.run();
    await passUntil(driver, 40);
    pay(driver, 'o1', 45);
    await driver.run();
    await passUntil(driver, 60);
    expect(rowOf(driver, 'o1')).to.deep.equal({ ...paidRow, settled_at: iso(45), abandoned_at: iso(30) });
  });

  it('takes a canceled order for canceled, and one whose payment comes first for paid', async () => {
    const driver = build();
    place(driver, 'o2', 0);
    cancel(driver, 'o2', 3);
    pay(driver, 'o1', 12);
    await driver.run();
    place(driver, 'o1', 12.5);
    await driver.run();
    await passUntil(driver, 100);
    expect(rowOf(driver, 'o2')).to.include({ outcome: 'canceled', settled_at: iso(3), abandoned_at: null });
    expect(rowOf(driver, 'o1')).to.include({ outcome: 'paid', created_at: iso(12.5), abandoned_at: null });
  });
});
