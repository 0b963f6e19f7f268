import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { orderId, paymentId, productId, userId } from '../../src/domain/ids.ts';
import { appendEvents } from '../../src/journal/append-events.ts';
import { eventually } from '../support/eventually.ts';
import { sealed } from '../support/journal.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { type Answer, type Client, clientOf, startTestApp } from '../support/running-app.ts';
import { shopperKey, useWorkspace } from '../support/stack.ts';

const problemOf = ({ body }: Answer): string => String(body.type).replace('urn:millrace:problem:', '');

/** Two processes: one does everything, the other answers only, from the same models and the same cache. */
describe('queries over HTTP', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({ RATE_LIMIT_FAILED_LOGINS_PER_MINUTE: '0' });
  let operator: Client;
  let ann: Client;
  let bob: Client;
  let elsewhere: Client;
  before(async () => {
    const { url } = await startTestApp(workspace());
    const other = await startTestApp(workspace(), 'api');
    operator = clientOf(url);
    ann = clientOf(url, shopperKey('ann'));
    bob = clientOf(other.url, shopperKey('bob'));
    elsewhere = clientOf(other.url, shopperKey('ann'));
  });

  const newProduct = async (stock: number): Promise<string> => {
    const product = { name: 'Mill', priceMinor: 250, currency: 'EUR', stock };
    const { body, status } = await operator.post('/v1/products', product);
    expect(status).to.equal(201);
    return body.productId as string;
  };
  const placeOrder = async (productId: string, quantity = 1): Promise<string> => {
    const { body } = await ann.post('/v1/orders', { userId: 'ann', items: [{ productId, quantity }] });
    return body.orderId as string;
  };
  const payOrder = async (orderId: string, amountMinor: number): Promise<void> => {
    const { body } = await ann.post(`/v1/orders/${orderId}/payments`, { amountMinor, method: 'card' });
    await operator.post(`/v1/payments/${body.paymentId}/confirm`);
  };
  /** Waits for the answer that is meant, and gives it. */
  const see = (client: Client, path: string, expected: Record<string, unknown>): Promise<Answer> =>
    eventually(
      async () => {
        const answer = await client.get(path);
        expect(answer.body).to.include(expected);
        return answer;
      },
      { timeoutMs: 60_000 },
    );

  it('tell operators of orders that nobody paid within half an hour, and of no others', async () => {
    const db = openTestDatabase(workspace());
    const [abandoned, paidInTime] = [orderId(uuidv7()), orderId(uuidv7())];
    const placedAt = new Date(Date.now() - 2 * 3_600_000);
    const eventsOf = (id: typeof abandoned) => {
      const facts = {
        orderId: id,
        userId: userId('ann'),
        items: [{ productId: productId('mill'), quantity: 1, unitPriceMinor: 250 }],
        total: { amountMinor: 250, currency: 'EUR' },
      };
      const stream = { aggregateType: 'Order', aggregateId: id } as const;
      return {
        created: sealed(stream, 1, { type: 'OrderCreated', ...facts }, placedAt),
        paid: sealed(stream, 2, { type: 'OrderPaid', ...facts, paymentId: paymentId('p-1') }, placedAt),
      };
    };
    const settled = eventsOf(paidInTime);
    await appendEvents(db, [eventsOf(abandoned).created, settled.created, settled.paid]);
    const path = `/v1/orders/abandoned?since=${placedAt.toISOString()}`;
    const { body } = await eventually(
      async () => {
        const answer = await operator.get(path);
        expect(answer.body.orders).to.have.length(1);
        return answer;
      },
      { timeoutMs: 60_000 },
    );
    expect(body).to.deep.equal({
      orders: [
        {
          orderId: abandoned,
          userId: 'ann',
          totalMinor: 250,
          currency: 'EUR',
          createdAt: placedAt.toISOString(),
          abandonedAt: new Date(placedAt.getTime() + 30 * 60_000).toISOString(),
        },
      ],
      next: null,
    });
    const later = new Date(placedAt.getTime() + 1).toISOString();
    expect((await operator.get(`/v1/orders/abandoned?since=${later}`)).body.orders).to.deep.equal([]);
    expect(problemOf(await ann.get(path))).to.equal('role-insufficient');
    expect(problemOf(await operator.get('/v1/orders/abandoned?cursor=x'))).to.equal('cursor-invalid');
  });

  it('tell operators of products that are out of stock, and since when for too long, until some is back', async () => {
    const db = openTestDatabase(workspace());
    const [overdue, recent] = [productId(uuidv7()), productId(uuidv7())];
    const [longAgo, now] = [new Date(Date.now() - 30 * 3_600_000), new Date()];
    const product = (id: typeof overdue) => ({ aggregateType: 'Product', aggregateId: id }) as const;
    const registered = (id: typeof overdue, at: Date) => {
      const price = { amountMinor: 250, currency: 'EUR' };
      const facts = { productId: id, name: 'Mill', price, stock: 0 };
      return sealed(product(id), 1, { type: 'ProductRegistered', ...facts }, at);
    };
    await appendEvents(db, [registered(overdue, longAgo), registered(recent, now)]);
    const path = '/v1/products/out-of-stock?direction=asc';
    const listed = async (query: string) => {
      const { body } = await operator.get(`${path}${query}`);
      const products = body.products as readonly { readonly productId: string }[];
      return products.filter(({ productId: id }) => id === overdue || id === recent);
    };
    const overdueRow = {
      productId: overdue,
      name: 'Mill',
      outSince: longAgo.toISOString(),
      overdueAt: new Date(longAgo.getTime() + 24 * 3_600_000).toISOString(),
    };
    const recentRow = { productId: recent, name: 'Mill', outSince: now.toISOString(), overdueAt: null };
    const patiently = { timeoutMs: 60_000 };
    await eventually(async () => expect(await listed('')).to.deep.equal([overdueRow, recentRow]), patiently);
    expect(await listed('&overdue=true')).to.deep.equal([overdueRow]);
    expect(await listed('&overdue=false')).to.deep.equal([recentRow]);
    const delivery = { productId: overdue, delta: 3, reason: 'delivery', stock: 3 };
    await appendEvents(db, [sealed(product(overdue), 2, { type: 'StockAdjusted', ...delivery }, new Date())]);
    await eventually(async () => expect(await listed('')).to.deep.equal([recentRow]), patiently);
    expect(problemOf(await ann.get(path))).to.equal('role-insufficient');
    expect(problemOf(await operator.get(`${path}&cursor=x`))).to.equal('cursor-invalid');
  });

  it('tell a buyer what was paid for, by name, and nobody else', async () => {
    const productId = await newProduct(3);
    const orderId = await placeOrder(productId, 2);
    expect(problemOf(await ann.get(`/v1/orders/${orderId}/receipt`))).to.equal('receipt-unknown');
    const payment = await ann.post(`/v1/orders/${orderId}/payments`, { amountMinor: 500, method: 'card' });
    const paid = await operator.post(`/v1/payments/${payment.body.paymentId}/confirm`);
    // Whether or not it was handled before its product.
    const { body } = await ann.get(`/v1/orders/${orderId}/receipt`, {
      'consistency-token': paid.headers.get('consistency-token') ?? '',
      prefer: 'wait=30',
    });
    expect(body).to.include({ orderId, userId: 'ann', totalMinor: 500 });
    expect(body.lines).to.deep.equal([{ productId, name: 'Mill', quantity: 2, unitPriceMinor: 250 }]);
    expect(problemOf(await bob.get(`/v1/orders/${orderId}/receipt`))).to.equal('not-yours');
  });

  it('tell of a product what its last event says, through the cache, in every process', async () => {
    const productId = await newProduct(3);
    const path = `/v1/products/${productId}`;
    for (const client of [ann, elsewhere]) {
      const { headers, body } = await see(client, path, { name: 'Mill', priceMinor: 250, stock: 3 });
      expect(headers.get('etag')).to.equal(`"${body.version}"`);
    }
    await placeOrder(productId, 3);
    const fresh = await elsewhere.get(path, { 'cache-control': 'no-cache' });
    expect(fresh.status).to.equal(200);
    for (const client of [ann, elsewhere]) {
      const sold = await see(client, path, { stock: 0 });
      expect(Number(sold.body.version)).to.be.greaterThan(1);
      const again = await client.get(path, { 'if-none-match': String(sold.headers.get('etag')) });
      expect([again.status, again.body]).to.deep.equal([304, {}]);
    }
    await eventually(async () => {
      await elsewhere.get(path);
      const metrics = await (await fetch(`${elsewhere.url}/metrics`)).text();
      expect(metrics).to.match(/^millrace_product_cache_requests_total\{outcome="hit"\} [1-9]/m);
    });
    await operator.post(`${path}/stock-adjustments`, { delta: 5, reason: 'delivery' });
    for (const client of [ann, elsewhere]) await see(client, path, { stock: 5 });
    expect(problemOf(await ann.get('/v1/products/nobody-knows'))).to.equal('product-unknown');
  });

  it('list products by what is sold, liked and seen, page by page, and what is on trend', async () => {
    const [mostSold, mostLiked, mostSeen] = [await newProduct(9), await newProduct(9), await newProduct(9)];
    const orderId = await placeOrder(mostSold, 7);
    await payOrder(orderId, 7 * 250);
    await ann.send('PUT', `/v1/products/${mostLiked}/likes/ann`);
    for (let views = 0; views < 5; views++) await ann.post(`/v1/products/${mostSeen}/views`);
    const firstOf = async (path: string): Promise<Record<string, unknown> | undefined> =>
      ((await elsewhere.get(path)).body.products as Record<string, unknown>[])[0];
    await eventually(
      async () => {
        for (const path of ['/v1/products', '/v1/trends']) {
          expect(await firstOf(`${path}?sort=sales`)).to.include({ productId: mostSold, salesCount: 7 });
          expect(await firstOf(`${path}?sort=likes`)).to.include({ productId: mostLiked, likeCount: 1 });
          expect(await firstOf(`${path}?sort=views`)).to.include({ productId: mostSeen, viewCount: 5 });
        }
      },
      { timeoutMs: 60_000 },
    );
    const rising = await eventually(
      async () => {
        const { body } = await elsewhere.get('/v1/trends/rising?limit=2');
        expect(body.products).to.have.length(2);
        return body.products as Record<string, unknown>[];
      },
      { timeoutMs: 60_000 },
    );
    expect(rising[0]).to.include({ productId: mostSeen, name: 'Mill', viewCount: 5, likeCount: 0 });
    expect(rising[1]).to.include({ productId: mostLiked, viewCount: 0, likeCount: 1 });
    expect(Date.parse(String(rising[0]?.to)) - Date.parse(String(rising[0]?.from))).to.equal(600_000);
    const first = await ann.get('/v1/products?limit=1');
    const second = await ann.get(`/v1/products?limit=1&cursor=${first.body.next}`);
    expect(second.body.products).to.have.length(1);
    expect(second.body.products).not.to.deep.equal(first.body.products);
    const { body } = await ann.get('/v1/trends?window=1h&limit=1');
    expect(Object.keys(body)).to.have.members(['window', 'products']);
  });

  it('tell an order to its owner, as it is and page by page, and to nobody else', async () => {
    const productId = await newProduct(10);
    const placed = [await placeOrder(productId), await placeOrder(productId, 2)] as const;
    await payOrder(placed[1], 500);
    const paid = await see(elsewhere, `/v1/orders/${placed[1]}`, { status: 'paid', version: 2 });
    expect(paid.body).to.deep.include({
      userId: 'ann',
      totalMinor: 500,
      items: [{ productId, quantity: 2, unitPriceMinor: 250 }],
    });
    expect(paid.headers.get('etag')).to.equal('"2"');
    await see(ann, `/v1/orders/${placed[0]}`, { status: 'created', paymentId: null });
    expect(problemOf(await bob.get(`/v1/orders/${placed[1]}`))).to.equal('not-yours');
    expect(problemOf(await bob.get('/v1/orders?userId=ann'))).to.equal('not-yours');
    expect((await bob.get('/v1/orders')).body).to.deep.equal({ orders: [], next: null });

    const idsOf = ({ body }: Answer) => (body.orders as { orderId: string }[]).map(({ orderId }) => orderId);
    const newest = await ann.get('/v1/orders?limit=1');
    const older = await elsewhere.get(`/v1/orders?limit=1&cursor=${newest.body.next}`);
    expect([...idsOf(newest), ...idsOf(older)]).to.have.members([...placed]);
    expect(idsOf(await operator.get('/v1/orders?userId=ann&status=created'))).to.include(placed[0]);
    expect(idsOf(await ann.get('/v1/orders?status=canceled'))).not.to.include.members([...placed]);
  });

  it('tell operators what an order was, by version and by time, before any model knows it', async () => {
    const productId = await newProduct(10);
    const before = new Date(Date.now() - 1).toISOString();
    const orderId = await placeOrder(productId);
    const path = `/v1/orders/${orderId}`;
    const first = await operator.get(`${path}?at=1`);
    expect(first.body).to.include({ orderId, status: 'created', version: 1, paymentId: null });
    const placedAt = String(first.body.createdAt);
    await payOrder(orderId, 250);

    expect((await operator.get(`${path}?at=2`)).body).to.include({ status: 'paid', version: 2 });
    expect((await operator.get(`${path}?at=${placedAt}`)).body).to.include({ status: 'created', version: 1 });
    expect((await operator.get(`${path}?at=9999-01-01T00:00:00Z`)).body).to.include({ status: 'paid' });
    for (const at of ['3', before, '2000-01-01T00:00:00Z']) {
      expect(problemOf(await operator.get(`${path}?at=${at}`)), at).to.equal('order-unknown-then');
    }
    expect(problemOf(await ann.get(`${path}?at=1`))).to.equal('role-insufficient');
    // The same order as the read model has, once it has it.
    const now = await see(operator, path, { version: 2 });
    expect((await operator.get(`${path}?at=2`)).body).to.deep.equal(now.body);
  });
});

describe('queries without the Redis that was named', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({ REDIS_CONNECT_TIMEOUT_MS: '100' });

  it('answer the same, while the other projections go on', async () => {
    const { endpoints } = workspace();
    const away = { ...workspace(), endpoints: { ...endpoints, redisUrl: 'redis://127.0.0.1:1' } };
    const app = await startTestApp(away);
    const product = { productId: 'mill', name: 'Mill', priceMinor: 250, currency: 'EUR', stock: 3 };
    await app.client.post('/v1/products', product);
    const seeStock = (stock: number) =>
      eventually(async () => expect((await app.client.get('/v1/products/mill')).body).to.include({ stock }));
    await seeStock(3);
    await app.client.post('/v1/products/mill/stock-adjustments', { delta: -3, reason: 'breakage' });
    await seeStock(0);
    const metrics = await (await fetch(`${app.url}/metrics`)).text();
    expect(metrics).to.match(/^millrace_product_cache_requests_total\{outcome="unavailable"\} [1-9]/m);
    expect(metrics).not.to.match(/outcome="hit"/);
    await app.stop();
  });
});
