import { expect } from 'chai';
import { startTestApi, type TestApi, type TestRequest } from './api-server.ts';

const product = { productId: 'p-1', name: 'Mill', priceMinor: 100, currency: 'EUR', stock: 1 };
const { productId: _, ...withoutId } = product;

type Route = readonly [TestRequest, string, unknown, number, Record<string, unknown>, Record<string, string>];

const routes: readonly Route[] = [
  [
    { method: 'POST', url: '/v1/products', as: 'operator', body: product },
    'registerProduct',
    product,
    201,
    { productId: 'p-1', version: 1 },
    { etag: '"1"', location: '/v1/products/p-1' },
  ],
  [
    { method: 'POST', url: '/v1/products', as: 'operator', body: withoutId },
    'registerProduct',
    { ...withoutId, productId: undefined },
    201,
    { productId: 'p-1', version: 1 },
    {},
  ],
  [
    {
      method: 'POST',
      url: '/v1/products/p-1/stock-adjustments',
      as: 'operator',
      body: { delta: -3, reason: 'breakage' },
    },
    'adjustStock',
    { productId: 'p-1', delta: -3, reason: 'breakage' },
    200,
    { productId: 'p-1', stock: 7, version: 4 },
    { etag: '"4"' },
  ],
  [
    { method: 'POST', url: '/v1/products/p-1/views', as: 'alice', body: { userId: 'alice' } },
    'recordProductView',
    { productId: 'p-1', userId: 'alice' },
    201,
    { productId: 'p-1', version: 1 },
    {},
  ],
  [
    { method: 'POST', url: '/v1/products/p-1/views', as: 'alice' },
    'recordProductView',
    { productId: 'p-1', userId: undefined },
    201,
    { productId: 'p-1', version: 1 },
    {},
  ],
  [
    { method: 'PUT', url: '/v1/products/p-1/likes/alice', as: 'alice' },
    'likeProduct',
    { productId: 'p-1', userId: 'alice' },
    200,
    { productId: 'p-1', userId: 'alice', liked: true, version: 1 },
    { etag: '"1"' },
  ],
  [
    { method: 'DELETE', url: '/v1/products/p-1/likes/alice', as: 'alice' },
    'unlikeProduct',
    { productId: 'p-1', userId: 'alice' },
    200,
    { productId: 'p-1', userId: 'alice', liked: false, version: 2 },
    { etag: '"2"' },
  ],
  [
    {
      method: 'POST',
      url: '/v1/orders',
      as: 'alice',
      body: { userId: 'alice', items: [{ productId: 'p-1', quantity: 3 }] },
    },
    'placeOrder',
    { userId: 'alice', items: [{ productId: 'p-1', quantity: 3 }] },
    201,
    { orderId: 'o-1', status: 'created', totalMinor: 300, currency: 'EUR', version: 1 },
    { etag: '"1"', location: '/v1/orders/o-1' },
  ],
  [
    { method: 'POST', url: '/v1/orders/o-1/cancel', as: 'alice', body: {} },
    'cancelOrder',
    { orderId: 'o-1' },
    200,
    { orderId: 'o-1', status: 'canceled', totalMinor: 300, currency: 'EUR', version: 2 },
    { etag: '"2"' },
  ],
  [
    {
      method: 'POST',
      url: '/v1/orders/o-1/payments',
      as: 'alice',
      body: { amountMinor: 300, method: 'card' },
    },
    'createPayment',
    { orderId: 'o-1', amountMinor: 300, method: 'card' },
    201,
    { paymentId: 'pay-1', orderId: 'o-1', status: 'created', amountMinor: 300, currency: 'EUR', version: 1 },
    { etag: '"1"' },
  ],
  [
    { method: 'POST', url: '/v1/payments/pay-1/confirm', as: 'operator' },
    'confirmPayment',
    { paymentId: 'pay-1' },
    200,
    { paymentId: 'pay-1', orderId: 'o-1', status: 'paid', amountMinor: 300, currency: 'EUR', version: 2 },
    { etag: '"2"' },
  ],
  [
    { method: 'POST', url: '/v1/payments/pay-1/fail', as: 'operator', body: { reason: 'declined' } },
    'failPayment',
    { paymentId: 'pay-1', reason: 'declined' },
    200,
    { paymentId: 'pay-1', orderId: 'o-1', status: 'failed', amountMinor: 300, currency: 'EUR', version: 2 },
    { etag: '"2"' },
  ],
  [
    { method: 'POST', url: '/v1/payments/pay-1/fail', as: 'operator' },
    'failPayment',
    { paymentId: 'pay-1', reason: 'no reason given' },
    200,
    { paymentId: 'pay-1', orderId: 'o-1', status: 'failed', amountMinor: 300, currency: 'EUR', version: 2 },
    {},
  ],
];

describe('commands over HTTP', () => {
  let api: TestApi;
  beforeEach(async () => {
    api = await startTestApi();
  });
  afterEach(() => api.close());

  for (const [request, command, input, status, answer, headers] of routes) {
    const body = request.body === undefined ? 'without a body' : `with ${JSON.stringify(request.body)}`;
    it(`${request.method} ${request.url} ${body}`, async () => {
      const response = await api.send(request);
      expect(response.statusCode, response.body).to.equal(status);
      expect(response.json).to.deep.equal(answer);
      expect(response.headers).to.include(headers);
      expect(api.calls.map((call) => [call.command, call.input])).to.deep.equal([[command, input]]);
    });
  }

  it('gives a view no version that could be mistaken for the product’s', async () => {
    const { headers } = await api.send({ method: 'POST', url: '/v1/products/p-1/views', as: 'alice' });
    expect(headers).not.to.have.property('etag');
  });

  it('takes an empty body that says it is JSON for none', async () => {
    const headers = { 'content-type': 'application/json' };
    const answer = await api.send({ method: 'POST', url: '/v1/orders/o-1/cancel', as: 'alice', headers });
    expect(answer.statusCode).to.equal(200);
  });

  it('tells commands where they came from', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const headers = { 'idempotency-key': '"key-1"', 'x-correlation-id': 'checkout-42', traceparent };
    await api.send({ method: 'POST', url: '/v1/orders/o-1/cancel', as: 'alice', headers });
    const { request } = api.calls[0] ?? expect.fail('no command');
    expect(request.context).to.deep.equal({ requestId: 'key-1', correlationId: 'checkout-42', traceparent });
    expect(request.actingUser).to.equal('alice');
    await api.send({ method: 'POST', url: '/v1/orders/o-1/cancel', as: 'operator' });
    expect(api.calls[1]?.request.actingUser).to.equal(undefined);
  });

  it('passes no trace and no correlation on that is none', async () => {
    for (const [traceparent, correlation] of [
      ['00-0-0-01', 'with blanks in it'],
      ['00-00000000000000000000000000000000-b7ad6b7169203331-01', 'x'.repeat(256)],
      ['ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'caf\u00e9'],
    ] as const) {
      const headers = { traceparent, 'x-correlation-id': correlation };
      await api.send({ method: 'POST', url: '/v1/products/p-1/views', as: 'alice', headers });
      expect(api.calls.at(-1)?.request.context).to.include({
        traceparent: null,
        correlationId: 'fresh-correlation-id',
      });
    }
  });
});
