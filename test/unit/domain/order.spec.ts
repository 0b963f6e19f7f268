import { expect } from 'chai';
import fc from 'fast-check';
import { orderId, paymentId, productId, userId } from '../../../src/domain/ids.ts';
import { largestAmountMinor } from '../../../src/domain/money.ts';
import {
  type Order,
  type OrderCommand,
  type OrderCreated,
  orderDecider,
} from '../../../src/domain/order/order.ts';
import { givenWith } from '../../support/given.ts';

const given = givenWith(orderDecider);
const item = (id: string, quantity: number, unitPriceMinor: number) => ({
  productId: productId(id),
  quantity,
  unitPriceMinor,
});
const facts = {
  orderId: orderId('o-1'),
  userId: userId('u-1'),
  items: [item('a', 2, 150), item('b', 1, 700)],
  total: { amountMinor: 1000, currency: 'EUR' },
};
const created: OrderCreated = { type: 'OrderCreated', ...facts };
const place = {
  type: 'PlaceOrder',
  orderId: facts.orderId,
  userId: facts.userId,
  items: facts.items.map((line) => ({ ...line, currency: 'EUR' })),
} as const;
const payment = paymentId('pay-1');
const paid = { type: 'OrderPaid', ...facts, paymentId: payment } as const;
const canceled = { type: 'OrderCanceled', ...facts } as const;

describe('order', () => {
  it('is placed with what its items cost together', () => {
    given().when(place).thenAccepted(created);
  });

  it('is placed once', () => {
    given(created).when(place).thenRejected({ reason: 'order-already-placed' });
  });

  it('has at least one item, none twice, and one currency', () => {
    given()
      .when({ ...place, items: [] })
      .thenRejected({ reason: 'order-empty' });
    given()
      .when({ ...place, items: [...place.items, { ...item('a', 1, 150), currency: 'EUR' }] })
      .thenRejected({ reason: 'order-item-repeated', productId: productId('a') });
    given()
      .when({ ...place, items: [...place.items, { ...item('c', 1, 150), currency: 'USD' }] })
      .thenRejected({ reason: 'order-currencies-differ' });
  });

  it('costs no more than can be written exactly', () => {
    const dear = { ...item('a', 2, largestAmountMinor), currency: 'EUR' };
    given()
      .when({ ...place, items: [dear] })
      .thenRejected({ reason: 'order-total-too-large' });
  });

  it('is paid, with all that a consumer needs', () => {
    given(created).when({ type: 'PayOrder', paymentId: payment }).thenAccepted(paid);
  });

  it('is paid once and not after it was canceled', () => {
    given(created, paid)
      .when({ type: 'PayOrder', paymentId: payment })
      .thenRejected({ reason: 'order-already-paid' });
    given(created, canceled)
      .when({ type: 'PayOrder', paymentId: payment })
      .thenRejected({ reason: 'order-already-canceled' });
  });

  it('is canceled once and not after it was paid', () => {
    given(created).when({ type: 'CancelOrder' }).thenAccepted(canceled);
    given(created, canceled).when({ type: 'CancelOrder' }).thenRejected({ reason: 'order-already-canceled' });
    given(created, paid).when({ type: 'CancelOrder' }).thenRejected({ reason: 'order-already-paid' });
  });

  it('must be there to be paid or canceled', () => {
    given().when({ type: 'PayOrder', paymentId: payment }).thenRejected({ reason: 'order-unknown' });
    given().when({ type: 'CancelOrder' }).thenRejected({ reason: 'order-unknown' });
  });

  it('settles at most once, whatever is asked of it', () => {
    const command: fc.Arbitrary<OrderCommand> = fc.constantFrom<OrderCommand>(
      place,
      { type: 'PayOrder', paymentId: payment },
      { type: 'CancelOrder' },
    );
    fc.assert(
      fc.property(fc.array(command), (commands) => {
        let order: Order = orderDecider.initialState;
        let settled = 0;
        for (const next of commands) {
          const decision = orderDecider.decide(next, order);
          if (decision.outcome === 'rejected') continue;
          settled += decision.events.filter(({ type }) => type !== 'OrderCreated').length;
          order = decision.events.reduce(orderDecider.evolve, order);
        }
        expect(settled).to.be.at.most(1);
      }),
    );
  });

  it('balances: the total is the sum of its items', () => {
    const line = fc.record({
      quantity: fc.integer({ min: 1, max: 1000 }),
      unitPriceMinor: fc.integer({ min: 0, max: 1_000_000 }),
    });
    fc.assert(
      fc.property(fc.array(line, { minLength: 1, maxLength: 20 }), (lines) => {
        const items = lines.map((entry, index) => ({
          ...item(`p${index}`, entry.quantity, entry.unitPriceMinor),
          currency: 'EUR',
        }));
        const decision = orderDecider.decide({ ...place, items }, orderDecider.initialState);
        if (decision.outcome === 'rejected') throw new Error(decision.rejection.reason);
        const sum = lines.reduce(
          (total, { quantity, unitPriceMinor }) => total + quantity * unitPriceMinor,
          0,
        );
        expect(decision.events[0]?.total.amountMinor).to.equal(sum);
      }),
    );
  });
});
