import { expect } from 'chai';
import fc from 'fast-check';
import type { Moment } from '../../../src/http/api-ports.ts';
import { matchesAnyTag } from '../../../src/http/header-values.ts';
import { readCursor, writeCursor } from '../../../src/http/page-cursor.ts';
import type { OrderListing } from '../../../src/read-model/list-orders.ts';
import type { ProductListing } from '../../../src/read-model/list-products.ts';
import { problemName, startTestApi, type TestApi, type Who } from './api-server.ts';
import { goodQueries, orderOf } from './good-queries.ts';

const queryUrls = [
  '/v1/products/p-1',
  '/v1/products/p-1/statistic',
  '/v1/products',
  '/v1/trends?window=1h',
  '/v1/trends/rising?limit=5',
  '/v1/orders/o-1',
  '/v1/orders/o-1/events',
  '/v1/orders',
];

describe('queries', () => {
  let api: TestApi;
  const askedProducts: ProductListing[] = [];
  const askedOrders: OrderListing[] = [];
  const askedMoments: Moment[] = [];
  let stock = 7;
  before(async () => {
    api = await startTestApi({
      queries: {
        getProduct: async (productId) => {
          const product = await goodQueries.getProduct(productId);
          return productId === 'p-1' && product ? { ...product, stock } : null;
        },
        getProductStatistic: async (productId) =>
          productId === 'p-1' ? goodQueries.getProductStatistic(productId) : null,
        listProducts: (listing) => {
          askedProducts.push(listing);
          return goodQueries.listProducts(listing);
        },
        getOrder: async (orderId) => (orderId === 'o-1' ? orderOf(orderId) : null),
        getOrderHistory: async (orderId) => (orderId === 'o-1' ? goodQueries.getOrderHistory(orderId) : null),
        listOrders: (listing) => {
          askedOrders.push(listing);
          return goodQueries.listOrders(listing);
        },
      },
      histories: {
        orderAt: async (orderId, moment) => {
          askedMoments.push(moment);
          return orderId === 'o-1' ? orderOf(orderId) : null;
        },
      },
    });
  });
  after(() => api.close());
  const read = (url: string, as: Who | undefined = 'alice', headers: Record<string, string> = {}) =>
    api.send({ method: 'GET', url, ...(as && { as }), headers });

  for (const url of queryUrls) {
    it(`${url} says with a tag what it answered, and 304 to who comes back with it`, async () => {
      const first = await read(url);
      expect(first.statusCode).to.equal(200);
      const tag = String(first.headers.etag);
      expect(tag).to.match(/^"[\w-]+"$/);
      expect(first.headers['cache-control']).to.equal('private, no-cache');
      for (const given of [tag, `W/${tag}`, `"other", ${tag}`, '*']) {
        const again = await read(url, 'alice', { 'if-none-match': given });
        expect([again.statusCode, again.body, again.headers.etag], given).to.deep.equal([304, '', tag]);
      }
      const other = await read(url, 'alice', { 'if-none-match': '"other"' });
      expect([other.statusCode, other.body]).to.deep.equal([200, first.body]);
    });

    it(`${url} asks for credentials`, async () => {
      expect((await api.send({ method: 'GET', url })).statusCode).to.equal(401);
    });
  }

  it('do not tag what went wrong', async () => {
    const answer = await read('/v1/products/p-2', 'alice', { 'if-none-match': '*' });
    expect(problemName(answer)).to.equal('product-unknown');
    expect(answer.headers).not.to.have.property('etag');
  });

  it('give products and orders their version as their tag', async () => {
    expect((await read('/v1/products/p-1')).headers.etag).to.equal('"4"');
    expect((await read('/v1/orders/o-1')).headers.etag).to.equal('"1"');
    expect((await read('/v1/orders/o-1/events')).headers.etag).to.equal('"1"');
  });

  it('tell a product with its times as JSON has them', async () => {
    stock = 0;
    expect((await read('/v1/products/p-1')).json).to.deep.equal({
      productId: 'p-1',
      name: 'Mill',
      priceMinor: 4900,
      currency: 'EUR',
      stock: 0,
      version: 4,
      updatedAt: '2026-01-01T10:00:00.000Z',
    });
    expect(problemName(await read('/v1/products/p-2/statistic'))).to.equal('statistic-unknown');
  });

  it('hand on the order and the filters of a list of products, and go on where a page ended', async () => {
    const { json } = await read('/v1/products');
    expect(askedProducts.at(-1)).to.include({
      sort: 'sales',
      direction: 'desc',
      limit: 20,
      after: undefined,
    });
    await read(
      `/v1/products?sort=sales&direction=desc&limit=3&inStock=true&currency=EUR&priceMinorMin=5&priceMinorMax=9&cursor=${json.next}`,
    );
    expect(askedProducts.at(-1)).to.deep.equal({
      sort: 'sales',
      direction: 'desc',
      limit: 3,
      after: { value: 2, id: 'p-1' },
      inStock: true,
      currency: 'EUR',
      priceMinorMin: 5,
      priceMinorMax: 9,
    });
    expect(problemName(await read(`/v1/products?sort=likes&cursor=${json.next}`))).to.equal('cursor-invalid');
    expect(problemName(await read(`/v1/products?direction=asc&cursor=${json.next}`))).to.equal(
      'cursor-invalid',
    );
    expect(problemName(await read(`/v1/orders?cursor=${json.next}`))).to.equal('cursor-invalid');
    expect(problemName(await read('/v1/products?limit=101'))).to.equal('text-not-allowed');
    expect(problemName(await read('/v1/products?colour=red'))).to.equal('unknown-field');
  });

  it('list to a shopper its own orders, and to an operator everybody’s or those of one user', async () => {
    const { json } = await read('/v1/orders?status=paid&limit=1');
    expect(askedOrders.at(-1)).to.include({ userId: 'alice', status: 'paid', direction: 'desc', limit: 1 });
    await read(`/v1/orders?cursor=${json.next}`, 'bob');
    expect(askedOrders.at(-1)).to.deep.include({
      userId: 'bob',
      after: { value: new Date('2026-01-01T10:00:00Z'), id: 'o-1' },
    });
    await read('/v1/orders', 'operator');
    expect(askedOrders.at(-1)?.userId).to.equal(undefined);
    await read('/v1/orders?userId=bob', 'operator');
    expect(askedOrders.at(-1)?.userId).to.equal('bob');
    expect(problemName(await read('/v1/orders?userId=bob'))).to.equal('not-yours');
  });

  it('tell an order and its history to its owner and to operators, and to nobody else', async () => {
    for (const path of ['', '/events']) {
      expect((await read(`/v1/orders/o-1${path}`, 'operator')).statusCode).to.equal(200);
      expect(problemName(await read(`/v1/orders/o-1${path}`, 'bob'))).to.equal('not-yours');
      expect(problemName(await read(`/v1/orders/o-2${path}`))).to.equal('order-unknown');
    }
    expect((await read('/v1/orders/o-1/events')).json.events).to.deep.equal([
      {
        type: 'loopers.order.created.v1',
        time: '2026-01-01T10:00:00.000Z',
        version: 1,
        eventId: 'e-1',
        data: { userId: 'alice' },
      },
    ]);
  });

  it('tell operators what an order was at a version or a time', async () => {
    expect(problemName(await read('/v1/orders/o-1?at=1'))).to.equal('role-insufficient');
    expect((await read('/v1/orders/o-1?at=1', 'operator')).json).to.include({ orderId: 'o-1', version: 1 });
    await read('/v1/orders/o-1?at=2026-01-31T12:00:00%2B01:00', 'operator');
    expect(askedMoments).to.deep.equal([{ version: 1 }, { time: new Date('2026-01-31T11:00:00Z') }]);
    expect(problemName(await read('/v1/orders/o-2?at=1', 'operator'))).to.equal('order-unknown-then');
    for (const at of ['0', '-1', 'yesterday', '2026-02-30T12:00:00Z', '2026-01-31', '1e3']) {
      expect((await read(`/v1/orders/o-1?at=${at}`, 'operator')).statusCode, at).to.equal(400);
    }
  });
});

describe('a cursor', () => {
  const scope = { list: 'orders', direction: 'asc' };

  it('comes back as it was written, in its own list and order only', () => {
    const position = fc.record({ value: fc.maxSafeInteger(), id: fc.stringMatching(/^[A-Za-z0-9-]{1,64}$/) });
    fc.assert(
      fc.property(position, (at) => {
        const cursor = writeCursor(scope, at);
        expect(cursor).to.match(/^[A-Za-z0-9_-]{1,400}$/);
        expect(readCursor(scope, cursor)).to.deep.equal(at);
        expect(readCursor({ ...scope, direction: 'desc' }, cursor)).to.equal(undefined);
        expect(readCursor({ ...scope, list: 'products by sales' }, cursor)).to.equal(undefined);
      }),
    );
  });

  it('that was made up is none, and never more than that', () => {
    const anything = fc.oneof(
      fc.stringMatching(/^[A-Za-z0-9_-]{1,400}$/),
      fc.jsonValue().map((json) => Buffer.from(JSON.stringify(json)).toString('base64url')),
      fc
        .jsonValue()
        .map((json) => Buffer.from(JSON.stringify(['orders', 'asc', json, json])).toString('base64url')),
    );
    fc.assert(fc.property(anything, (cursor) => readCursor(scope, cursor) === undefined));
  });
});

describe('If-None-Match', () => {
  it('names tags in any strength, or all of them', () => {
    const tag = '"abc"';
    for (const given of ['"abc"', 'W/"abc"', '"x","abc"', '"x" , W/"abc"', '*', ' * ']) {
      expect(matchesAnyTag(given, tag), given).to.equal(true);
    }
    for (const given of [undefined, '', 'abc', '"abcd"', '"*"', '"x, abc"', '"ab', 'abc"']) {
      expect(matchesAnyTag(given, tag), String(given)).to.equal(false);
    }
  });
});
