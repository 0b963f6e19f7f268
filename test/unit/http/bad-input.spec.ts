import { expect } from 'chai';
import { problemName, startTestApi, type TestApi, type TestRequest } from './api-server.ts';

const product = { productId: 'p-1', name: 'Mill', priceMinor: 100, currency: 'EUR', stock: 1 };
const item = { productId: 'p-1', quantity: 1 };
const items = (length: number) =>
  Array.from({ length }, (_, index) => ({ ...item, productId: `p-${index}` }));

const register = (body: unknown, headers: Record<string, string> = {}): TestRequest => ({
  method: 'POST',
  url: '/v1/products',
  as: 'operator',
  body,
  headers,
});
const order = (body: unknown): TestRequest => ({ method: 'POST', url: '/v1/orders', as: 'operator', body });
const adjust = (body: unknown): TestRequest => ({
  method: 'POST',
  url: '/v1/products/p-1/stock-adjustments',
  as: 'operator',
  body,
});
const pay = (body: unknown): TestRequest => ({
  method: 'POST',
  url: '/v1/orders/o-1/payments',
  as: 'operator',
  body,
});

const refused: readonly [string, TestRequest, number, string, string?][] = [
  ['a number as text', register({ ...product, stock: '1' }), 400, 'wrong-type', '/stock'],
  ['true as a number', register({ ...product, stock: true }), 400, 'wrong-type', '/stock'],
  ['null as a text', register({ ...product, name: null }), 400, 'wrong-type', '/name'],
  ['half a cent', register({ ...product, priceMinor: 0.5 }), 400, 'wrong-type', '/priceMinor'],
  ['a list as a body', register([product]), 400, 'wrong-type', ''],
  ['a text as a body', order('"order"'), 400, 'wrong-type', ''],
  ['an unknown field', register({ ...product, colour: 'red' }), 400, 'unknown-field', '/colour'],
  [
    'an unknown field of an item',
    order({ userId: 'alice', items: [{ ...item, price: 1 }] }),
    400,
    'unknown-field',
    '/items/0/price',
  ],
  [
    'an unknown field where nothing is needed',
    { method: 'POST', url: '/v1/orders/o-1/cancel', as: 'operator', body: { reason: 'x' } },
    400,
    'unknown-field',
    '/reason',
  ],
  [
    'an unknown field in the query',
    { method: 'POST', url: '/v1/orders/o-1/cancel?force=1', as: 'operator' },
    400,
    'unknown-field',
    '/force',
  ],
  ['a missing field', register({ ...product, name: undefined }), 400, 'field-missing', '/name'],
  [
    'a price beyond 2^53',
    register({ ...product, priceMinor: 2 ** 53 }),
    400,
    'number-too-large',
    '/priceMinor',
  ],
  ['a stock beyond all bounds', register({ ...product, stock: 1e15 }), 400, 'number-too-large', '/stock'],
  ['a negative stock', register({ ...product, stock: -1 }), 400, 'number-too-small', '/stock'],
  [
    'a negative quantity',
    order({ userId: 'alice', items: [{ ...item, quantity: -1 }] }),
    400,
    'number-too-small',
    '/items/0/quantity',
  ],
  [
    'a quantity of nothing',
    order({ userId: 'alice', items: [{ ...item, quantity: 0 }] }),
    400,
    'number-too-small',
    '/items/0/quantity',
  ],
  [
    'a quantity over a million',
    order({ userId: 'alice', items: [{ ...item, quantity: 1_000_001 }] }),
    400,
    'number-too-large',
    '/items/0/quantity',
  ],
  ['a negative amount', pay({ amountMinor: -1, method: 'card' }), 400, 'number-too-small', '/amountMinor'],
  [
    'an adjustment beyond 2^53',
    adjust({ delta: -(2 ** 53), reason: 'x' }),
    400,
    'number-too-small',
    '/delta',
  ],
  ['an empty order', order({ userId: 'alice', items: [] }), 400, 'list-too-short', '/items'],
  ['101 items', order({ userId: 'alice', items: items(101) }), 400, 'list-too-long', '/items'],
  ['an id with a slash', register({ ...product, productId: 'a/b' }), 400, 'text-not-allowed', '/productId'],
  [
    'an id that is too long',
    register({ ...product, productId: 'a'.repeat(65) }),
    400,
    'text-not-allowed',
    '/productId',
  ],
  [
    'an id with a line break at its end',
    register({ ...product, productId: 'a\n' }),
    400,
    'text-not-allowed',
    '/productId',
  ],
  [
    'an id in the path that is none',
    { method: 'POST', url: '/v1/orders/a%20b/cancel', as: 'operator' },
    400,
    'text-not-allowed',
    '/orderId',
  ],
  [
    'a very long id in the path',
    { method: 'POST', url: `/v1/orders/${'a'.repeat(5000)}/cancel`, as: 'operator' },
    400,
    'text-not-allowed',
    '/orderId',
  ],
  ['an empty name', register({ ...product, name: '' }), 400, 'text-not-allowed', '/name'],
  ['a name without end', register({ ...product, name: 'x'.repeat(201) }), 400, 'text-not-allowed', '/name'],
  ['a null byte in a name', register({ ...product, name: 'a\u0000b' }), 400, 'text-not-allowed', '/name'],
  ['half a character in a name', register({ ...product, name: 'a\ud800' }), 400, 'text-not-allowed', '/name'],
  [
    'a currency in small letters',
    register({ ...product, currency: 'eur' }),
    400,
    'text-not-allowed',
    '/currency',
  ],
  ['no body', { method: 'POST', url: '/v1/products', as: 'operator' }, 400, 'wrong-type', ''],
  ['broken JSON', register('{'), 400, 'malformed-json'],
  ['a poisoned prototype', register('{"__proto__":{"x":1}}'), 400, 'malformed-json'],
  ['a poisoned constructor', register('{"constructor":{"prototype":{}}}'), 400, 'malformed-json'],
  ['bytes that are no UTF-8', register(Buffer.from([0x22, 0xff, 0xfe, 0x22])), 400, 'malformed-json'],
  [
    'another content type',
    register(product, { 'content-type': 'text/plain' }),
    415,
    'unsupported-media-type',
  ],
  ['a content type that is none', register(product, { 'content-type': '{}' }), 415, 'unsupported-media-type'],
  [
    'a form',
    register('name=Mill', { 'content-type': 'application/x-www-form-urlencoded' }),
    415,
    'unsupported-media-type',
  ],
  ['10,000 items', order({ userId: 'alice', items: items(10_000) }), 413, 'body-too-large'],
  ['a huge body', register({ ...product, name: 'x'.repeat(70_000) }), 413, 'body-too-large'],
];

describe('bad input', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  for (const [what, request, status, name, pointer] of refused) {
    it(`refuses ${what} as ${name}, and no command hears of it`, async () => {
      const answer = await api.send(request);
      expect([answer.statusCode, problemName(answer)], answer.body).to.deep.equal([status, name]);
      expect(answer.headers['content-type']).to.match(/^application\/problem\+json/);
      if (pointer !== undefined) expect(answer.json.pointer).to.equal(pointer);
      expect(api.calls).to.deep.equal([]);
    });
  }

  it('takes everything that is just within its bounds', async () => {
    for (const request of [
      register({
        ...product,
        productId: 'a'.repeat(64),
        name: 'ß😀'.repeat(100),
        priceMinor: 2 ** 53 - 2,
        stock: 1e12,
      }),
      order({ userId: 'A-1', items: items(100).map((entry) => ({ ...entry, quantity: 1_000_000 })) }),
      pay({ amountMinor: 0, method: 'c' }),
    ]) {
      expect((await api.send(request)).statusCode).to.equal(201);
    }
    api.calls.length = 0;
  });
});
