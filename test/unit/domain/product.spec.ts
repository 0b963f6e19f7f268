import { expect } from 'chai';
import fc from 'fast-check';
import { orderId, productId } from '../../../src/domain/ids.ts';
import {
  largestStock,
  type Product,
  type ProductCommand,
  type ProductEvent,
  type ProductRegistered,
  productDecider,
} from '../../../src/domain/product/product.ts';
import { givenWith } from '../../support/given.ts';

const given = givenWith(productDecider);
const id = productId('p-1');
const order = orderId('o-1');
const facts = { productId: id, name: 'Mill', price: { amountMinor: 1999, currency: 'EUR' }, stock: 5 };
const registered: ProductRegistered = { type: 'ProductRegistered', ...facts };
const unknown = { reason: 'product-unknown' } as const;

describe('product', () => {
  it('can be registered', () => {
    given()
      .when({ type: 'RegisterProduct', ...facts })
      .thenAccepted(registered);
  });

  it('can be registered once', () => {
    given(registered)
      .when({ type: 'RegisterProduct', ...facts, name: 'Another' })
      .thenRejected({ reason: 'product-already-registered', productId: id });
  });

  it('can be registered without a piece, which is not the same as running out', () => {
    given()
      .when({ type: 'RegisterProduct', ...facts, stock: 0 })
      .thenAccepted({ ...registered, stock: 0 });
  });

  it('has no stock before it is registered', () => {
    given().when({ type: 'AdjustStock', delta: 1, reason: 'found' }).thenRejected(unknown);
    given().when({ type: 'ReserveStock', orderId: order, quantity: 1 }).thenRejected(unknown);
    given().when({ type: 'ReleaseStock', orderId: order, quantity: 1 }).thenRejected(unknown);
  });
});

describe('stock', () => {
  it('is adjusted up and down', () => {
    given(registered)
      .when({ type: 'AdjustStock', delta: 3, reason: 'delivery' })
      .thenAccepted({ type: 'StockAdjusted', productId: id, delta: 3, reason: 'delivery', stock: 8 });
    given(registered)
      .when({ type: 'AdjustStock', delta: -2, reason: 'broken' })
      .thenAccepted({ type: 'StockAdjusted', productId: id, delta: -2, reason: 'broken', stock: 3 });
  });

  it('is not adjusted below zero or beyond what can be counted', () => {
    given(registered)
      .when({ type: 'AdjustStock', delta: -6, reason: 'broken' })
      .thenRejected({ reason: 'stock-insufficient', productId: id, stock: 5, wanted: 6 });
    given(registered)
      .when({ type: 'AdjustStock', delta: largestStock, reason: 'dreams' })
      .thenRejected({ reason: 'stock-too-large', productId: id });
  });

  it('is reserved for an order', () => {
    given(registered)
      .when({ type: 'ReserveStock', orderId: order, quantity: 2 })
      .thenAccepted({ type: 'StockReserved', productId: id, orderId: order, quantity: 2, stock: 3 });
  });

  it('is not reserved when there is too little', () => {
    given(registered)
      .when({ type: 'ReserveStock', orderId: order, quantity: 6 })
      .thenRejected({ reason: 'stock-insufficient', productId: id, stock: 5, wanted: 6 });
  });

  it('tells once when the last piece goes, by order or by adjustment', () => {
    const depleted = { type: 'StockDepleted', productId: id } as const;
    const last = { type: 'StockReserved', productId: id, orderId: order, quantity: 5, stock: 0 } as const;
    given(registered)
      .when({ type: 'ReserveStock', orderId: order, quantity: 5 })
      .thenAccepted(last, depleted);
    given(registered)
      .when({ type: 'AdjustStock', delta: -5, reason: 'fire' })
      .thenAccepted({ type: 'StockAdjusted', productId: id, delta: -5, reason: 'fire', stock: 0 }, depleted);
    given(registered, last, depleted)
      .when({ type: 'AdjustStock', delta: 0, reason: 'count' })
      .thenAccepted({ type: 'StockAdjusted', productId: id, delta: 0, reason: 'count', stock: 0 });
  });

  it('comes back when an order is called off', () => {
    given(registered, { type: 'StockReserved', productId: id, orderId: order, quantity: 5, stock: 0 })
      .when({ type: 'ReleaseStock', orderId: order, quantity: 5 })
      .thenAccepted({ type: 'StockReleased', productId: id, orderId: order, quantity: 5, stock: 5 });
  });

  const command: fc.Arbitrary<ProductCommand> = fc.oneof(
    fc.record({
      type: fc.constant('AdjustStock' as const),
      delta: fc.integer({ min: -20, max: 20 }),
      reason: fc.constant('r'),
    }),
    fc.record({
      type: fc.constant('ReserveStock' as const),
      orderId: fc.constant(order),
      quantity: fc.integer({ min: 1, max: 9 }),
    }),
    fc.record({
      type: fc.constant('ReleaseStock' as const),
      orderId: fc.constant(order),
      quantity: fc.integer({ min: 1, max: 9 }),
    }),
  );

  it('is never negative, is what its events say, and runs out exactly when it reaches zero', () => {
    fc.assert(
      fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
        let product: Product = productDecider.evolve(productDecider.initialState, registered);
        for (const next of commands) {
          const decision = productDecider.decide(next, product);
          if (decision.outcome === 'rejected') continue;
          const before = product.status === 'registered' ? product.stock : Number.NaN;
          const events: readonly ProductEvent[] = decision.events;
          product = events.reduce(productDecider.evolve, product);
          const after = product.status === 'registered' ? product.stock : Number.NaN;
          expect(after).to.be.at.least(0);
          const change =
            next.type === 'AdjustStock' ? next.delta : next.type === 'ReserveStock' ? -next.quantity : 0;
          if (next.type !== 'ReleaseStock') expect(after).to.equal(before + change);
          const told = events.some(({ type }) => type === 'StockDepleted');
          expect(told).to.equal(before > 0 && after === 0);
        }
      }),
    );
  });
});
