import { expect } from 'chai';
import type { Rejection } from '../../../src/commands/command.ts';
import { productId } from '../../../src/domain/ids.ts';
import { type ProblemName, problemTable } from '../../../src/http/problem.ts';
import { problemOf } from '../../../src/http/rejection-problems.ts';
import { startTestApi, type TestApi } from './api-server.ts';

/** Typed by the reasons there are: a new one must be written down here as well. */
const expected: {
  readonly [Reason in Rejection['reason']]: readonly [
    Extract<Rejection, { reason: Reason }>,
    number,
    Readonly<Record<string, unknown>>,
  ];
} = {
  'not-yours': [{ reason: 'not-yours' }, 403, {}],
  'version-differs': [{ reason: 'version-differs', currentVersion: 6 }, 412, { currentVersion: 6 }],
  'idempotency-key-in-flight': [{ reason: 'idempotency-key-in-flight' }, 409, {}],
  'idempotency-key-reused': [{ reason: 'idempotency-key-reused' }, 422, {}],
  'product-unknown': [{ reason: 'product-unknown' }, 404, {}],
  'product-already-registered': [
    { reason: 'product-already-registered', productId: productId('p-1') },
    409,
    { productId: 'p-1' },
  ],
  'stock-insufficient': [
    { reason: 'stock-insufficient', productId: productId('p-1'), stock: 1, wanted: 3 },
    409,
    { productId: 'p-1', stock: 1, wanted: 3 },
  ],
  'stock-too-large': [{ reason: 'stock-too-large', productId: productId('p-1') }, 409, { productId: 'p-1' }],
  'order-already-placed': [{ reason: 'order-already-placed' }, 409, {}],
  'order-unknown': [{ reason: 'order-unknown' }, 404, {}],
  'order-empty': [{ reason: 'order-empty' }, 422, {}],
  'order-item-repeated': [
    { reason: 'order-item-repeated', productId: productId('p-1') },
    422,
    { productId: 'p-1' },
  ],
  'order-currencies-differ': [{ reason: 'order-currencies-differ' }, 422, {}],
  'order-total-too-large': [{ reason: 'order-total-too-large' }, 422, {}],
  'order-already-paid': [{ reason: 'order-already-paid' }, 409, {}],
  'order-already-canceled': [{ reason: 'order-already-canceled' }, 409, {}],
  'payment-already-created': [{ reason: 'payment-already-created' }, 409, {}],
  'payment-unknown': [{ reason: 'payment-unknown' }, 404, {}],
  'payment-amount-differs': [
    { reason: 'payment-amount-differs', due: { amountMinor: 5, currency: 'EUR' }, offered: 4 },
    422,
    { due: { amountMinor: 5, currency: 'EUR' }, offered: 4 },
  ],
  'payment-already-paid': [{ reason: 'payment-already-paid' }, 409, {}],
  'payment-already-failed': [{ reason: 'payment-already-failed' }, 409, {}],
};

describe('problems', () => {
  for (const [reason, [rejection, status, members]] of Object.entries(expected)) {
    it(`tell ${reason} as ${status}`, () => {
      const { body } = problemOf(rejection);
      expect(body).to.deep.equal({
        type: `urn:millrace:problem:${reason}`,
        title: problemTable[reason as ProblemName].title,
        status,
        ...members,
      });
    });
  }

  it('have one name each and a status that says whose fault it is', () => {
    const titles = Object.values(problemTable).map(({ title }) => title);
    expect(new Set(titles).size).to.equal(titles.length);
    for (const [name, { status }] of Object.entries(problemTable)) {
      expect(name).to.match(/^[a-z]+(-[a-z]+)*$/);
      expect(status).to.be.within(400, 503);
    }
  });

  describe('of a rejected command', () => {
    let api: TestApi;
    before(async () => {
      api = await startTestApi();
    });
    after(() => api.close());

    const routes: readonly [string, 'POST' | 'PUT', string, unknown, readonly Rejection['reason'][]][] = [
      [
        'registerProduct',
        'POST',
        '/v1/products',
        { name: 'Mill', priceMinor: 1, currency: 'EUR', stock: 1 },
        ['product-already-registered'],
      ],
      [
        'adjustStock',
        'POST',
        '/v1/products/p-1/stock-adjustments',
        { delta: 1, reason: 'x' },
        ['product-unknown', 'stock-insufficient', 'stock-too-large', 'version-differs'],
      ],
      ['recordProductView', 'POST', '/v1/products/p-1/views', undefined, ['product-unknown', 'not-yours']],
      [
        'likeProduct',
        'PUT',
        '/v1/products/p-1/likes/u-1',
        undefined,
        ['product-unknown', 'not-yours', 'version-differs'],
      ],
      [
        'placeOrder',
        'POST',
        '/v1/orders',
        { userId: 'u-1', items: [{ productId: 'p-1', quantity: 1 }] },
        [
          'product-unknown',
          'stock-insufficient',
          'order-empty',
          'order-item-repeated',
          'order-currencies-differ',
          'order-total-too-large',
          'not-yours',
        ],
      ],
      [
        'cancelOrder',
        'POST',
        '/v1/orders/o-1/cancel',
        undefined,
        [
          'order-unknown',
          'order-already-paid',
          'order-already-canceled',
          'stock-too-large',
          'not-yours',
          'version-differs',
        ],
      ],
      [
        'createPayment',
        'POST',
        '/v1/orders/o-1/payments',
        { amountMinor: 1, method: 'card' },
        [
          'order-unknown',
          'order-already-paid',
          'order-already-canceled',
          'payment-already-created',
          'payment-amount-differs',
          'not-yours',
        ],
      ],
      [
        'confirmPayment',
        'POST',
        '/v1/payments/pay-1/confirm',
        undefined,
        [
          'payment-unknown',
          'payment-already-paid',
          'payment-already-failed',
          'order-already-paid',
          'order-already-canceled',
          'version-differs',
        ],
      ],
      [
        'failPayment',
        'POST',
        '/v1/payments/pay-1/fail',
        undefined,
        ['payment-unknown', 'payment-already-paid', 'payment-already-failed', 'version-differs'],
      ],
    ];
    for (const [command, method, url, body, reasons] of routes) {
      it(`are documented where they happen: ${command}`, async () => {
        for (const reason of [...reasons, 'idempotency-key-in-flight', 'idempotency-key-reused'] as const) {
          const [rejection, status] = expected[reason];
          api.answerWith(async () => ({ outcome: 'rejected', rejection }));
          const answer = await api.send({ method, url, as: 'operator', ...(body !== undefined && { body }) });
          expect(answer.statusCode, reason).to.equal(status);
          expect(answer.json.type).to.equal(`urn:millrace:problem:${reason}`);
        }
      });
    }
  });
});
