import { expect } from 'chai';
import type { FastifyInstance } from 'fastify';
import type { Commands } from '../../../src/commands/commands.ts';
import { buildServer } from '../../../src/http/server.ts';
import { VersionConflict } from '../../../src/journal/append-events.ts';
import { recordingLog } from '../../support/silent-log.ts';

const product = { productId: 'p-1', name: 'Mill', priceMinor: 100, currency: 'EUR', stock: 1 };

describe('HTTP server', () => {
  const { log, lines } = recordingLog();
  let server: FastifyInstance;
  let received: unknown[];
  let answer: () => ReturnType<Commands['registerProduct']>;
  let healthy: () => Promise<void>;

  beforeEach(() => {
    received = [];
    lines.length = 0;
    answer = async () => ({ outcome: 'accepted', version: 1 });
    healthy = async () => {};
    server = buildServer({
      log,
      bodyBytesMax: 2048,
      requestTimeoutMs: 1000,
      newRequestId: () => 'generated',
      healthChecks: { database: () => healthy() },
      api: {
        commands: {
          registerProduct: (command, context) => {
            received.push({ command, context });
            return answer();
          },
          recordProductView: async (command, context) => {
            received.push({ command, context });
            return { outcome: 'rejected', rejection: 'product-unknown' };
          },
        },
        queries: { getProductStatistic: async () => null },
        newProductId: () => 'new-id',
      },
    });
  });
  afterEach(() => server.close());

  const post = (payload: unknown, headers: Record<string, string> = {}) =>
    server.inject({
      method: 'POST',
      url: '/v1/products',
      headers: { 'content-type': 'application/json', ...headers },
      payload: typeof payload === 'string' ? payload : JSON.stringify(payload),
    });

  it('passes a command on with where it came from', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const { productId: _, ...withoutId } = product;
    const response = await post(withoutId, { 'idempotency-key': '"key-1"', traceparent });
    expect(response.statusCode).to.equal(201);
    expect(response.json()).to.deep.equal({ productId: 'new-id', version: 1 });
    expect(received).to.deep.equal([
      {
        command: { type: 'RegisterProduct', ...product, productId: 'new-id' },
        context: { requestId: 'key-1', correlationId: 'key-1', traceparent },
      },
    ]);
  });

  it('does not pass a trace on that is not one', async () => {
    await post(product, { traceparent: '00-0-0-01' });
    expect(received).to.have.nested.property('[0].context.traceparent', null);
  });

  const refused: readonly [string, unknown, Record<string, string>, number, string][] = [
    ['a number as text', { ...product, stock: '1' }, {}, 400, 'invalid-request'],
    ['true as a number', { ...product, stock: true }, {}, 400, 'invalid-request'],
    ['an unknown field', { ...product, colour: 'red' }, {}, 400, 'invalid-request'],
    ['a negative stock', { ...product, stock: -1 }, {}, 400, 'invalid-request'],
    ['half a cent', { ...product, priceMinor: 0.5 }, {}, 400, 'invalid-request'],
    ['a number beyond 2^53', { ...product, stock: 2 ** 53 }, {}, 400, 'invalid-request'],
    ['an id with a slash', { ...product, productId: 'a/b' }, {}, 400, 'invalid-request'],
    ['no body', '', {}, 400, 'invalid-request'],
    ['broken JSON', '{', {}, 400, 'malformed-json'],
    ['a poisoned prototype', '{"__proto__":{"x":1}}', {}, 400, 'malformed-json'],
    ['another content type', product, { 'content-type': 'text/plain' }, 415, 'unsupported-media-type'],
    ['a huge body', { ...product, name: 'x'.repeat(3000) }, {}, 413, 'body-too-large'],
  ];
  for (const [what, body, headers, status, type] of refused) {
    it(`refuses ${what} with a problem and passes nothing on`, async () => {
      const response = await post(body, headers);
      expect(response.statusCode, response.body).to.equal(status);
      expect(response.headers['content-type']).to.match(/^application\/problem\+json/);
      expect(response.json()).to.include({ type: `urn:millrace:problem:${type}`, status });
      expect(received).to.deep.equal([]);
    });
  }

  it('answers a rejection and a lost race with problems of their own', async () => {
    answer = async () => ({ outcome: 'rejected', rejection: 'product-already-registered' });
    expect((await post(product)).json()).to.include({
      type: 'urn:millrace:problem:product-already-registered',
      status: 409,
    });
    answer = async () => {
      throw new VersionConflict('lost');
    };
    expect((await post(product)).json()).to.include({ type: 'urn:millrace:problem:conflict', status: 409 });
    const view = await server.inject({ method: 'POST', url: '/v1/products/p-1/views' });
    expect(view.json()).to.include({ type: 'urn:millrace:problem:product-unknown', status: 404 });
    const statistic = await server.inject('/v1/products/p-1/statistic');
    expect(statistic.json()).to.include({ type: 'urn:millrace:problem:statistic-unknown', status: 404 });
  });

  it('logs what went wrong inside and tells the client nothing of it', async () => {
    answer = async () => {
      throw new Error('password is s3cret');
    };
    const response = await post(product);
    expect(response.statusCode).to.equal(500);
    expect(response.body).not.to.include('s3cret');
    expect(lines.map(({ msg }) => msg)).to.deep.equal(['A request failed']);
  });

  it('answers an unknown path with a problem', async () => {
    const response = await server.inject('/v2/nothing?secret=1');
    expect(response.statusCode).to.equal(404);
    expect(response.json()).to.include({ type: 'urn:millrace:problem:not-found', detail: 'GET /v2/nothing' });
  });

  it('is ready only while its parts are', async () => {
    expect((await server.inject('/livez')).statusCode).to.equal(200);
    expect((await server.inject('/readyz')).statusCode).to.equal(200);
    healthy = () => Promise.reject(new Error('connection refused'));
    const failing = await server.inject('/readyz');
    expect(failing.statusCode).to.equal(503);
    expect(failing.json().checks).to.deep.equal([
      { name: 'database', status: 'failing', reason: 'connection refused' },
    ]);
  });
});
