import { expect } from 'chai';
import type { HistoryEntry } from '../../../src/journal/stream-history.ts';
import { problemName, startTestApi, type TestApi, type TestRequest } from './api-server.ts';

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

describe('the history of an order', () => {
  const events: readonly HistoryEntry[] = [1, 2].map((version) => ({
    eventId: `e-${version}`,
    type: 'loopers.order.created.v1',
    version,
    time: new Date(1_700_000_000_000),
    data: { orderId: 'o-1', items: [{ productId: 'p-1', quantity: version }] },
  }));
  let api: TestApi;
  before(async () => {
    api = await startTestApi({
      histories: { orderEvents: async (id) => (id === 'o-1' ? { ownerId: 'alice', events } : null) },
    });
  });
  after(() => api.close());
  const read = (as: TestRequest['as'], orderId = 'o-1') =>
    api.send({ method: 'GET', url: `/v1/orders/${orderId}/events`, ...(as && { as }) });

  it('is told to its owner and to operators, whole', async () => {
    for (const who of ['alice', 'operator'] as const) {
      const answer = await read(who);
      expect(answer.statusCode).to.equal(200);
      expect(answer.headers.etag).to.equal('"2"');
      expect(answer.json).to.deep.equal({
        orderId: 'o-1',
        version: 2,
        events: events.map((event) => ({ ...event, time: '2023-11-14T22:13:20.000Z' })),
      });
    }
  });

  it('is told to nobody else', async () => {
    expect(problemName(await read('bob'))).to.equal('not-yours');
    expect(problemName(await read(undefined))).to.equal('unauthenticated');
    expect(problemName(await read('alice', 'o-2'))).to.equal('order-unknown');
  });
});

describe('the statistic of a product', () => {
  it('is told when there is one', async () => {
    const counts = { likeCount: 1, salesCount: 2, viewCount: 3 };
    const api = await startTestApi({
      queries: {
        getProductStatistic: async (productId) =>
          productId === 'p-1' ? { productId, ...counts, updatedAt: new Date(1_700_000_000_000) } : null,
      },
    });
    const read = (id: string) => api.send({ method: 'GET', url: `/v1/products/${id}/statistic`, as: 'bob' });
    expect((await read('p-1')).json).to.deep.equal({
      productId: 'p-1',
      ...counts,
      updatedAt: '2023-11-14T22:13:20.000Z',
    });
    expect(problemName(await read('p-2'))).to.equal('statistic-unknown');
    await api.close();
  });
});
