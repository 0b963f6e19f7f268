import { expect } from 'chai';
import { AuthenticationUnavailable } from '../../../src/auth/authenticator.ts';
import { shopper } from '../../../src/auth/caller.ts';
import { recordingLog } from '../../support/silent-log.ts';
import {
  authenticateByKey,
  keys,
  problemName,
  startTestApi,
  type TestApi,
  type TestRequest,
} from './api-server.ts';

const order = (userId: string): TestRequest => ({
  method: 'POST',
  url: '/v1/orders',
  body: { userId, items: [{ productId: 'p-1', quantity: 1 }] },
});

const operatorsOnly: readonly TestRequest[] = [
  { method: 'POST', url: '/v1/products', body: { name: 'Mill', priceMinor: 1, currency: 'EUR', stock: 1 } },
  { method: 'POST', url: '/v1/products/p-1/stock-adjustments', body: { delta: 1, reason: 'x' } },
  { method: 'POST', url: '/v1/payments/pay-1/confirm' },
  { method: 'POST', url: '/v1/payments/pay-1/fail' },
  { method: 'GET', url: '/admin/outbox/failed' },
  { method: 'GET', url: '/admin/outbox/dead' },
  { method: 'GET', url: '/admin/outbox/1' },
  { method: 'POST', url: '/admin/outbox/retry', body: { all: true } },
  { method: 'POST', url: '/admin/outbox/drop', body: { id: '1' } },
];
const forOneself: readonly TestRequest[] = [
  { method: 'POST', url: '/v1/products/p-1/views', body: { userId: 'alice' } },
  { method: 'PUT', url: '/v1/products/p-1/likes/alice' },
  { method: 'DELETE', url: '/v1/products/p-1/likes/alice' },
  order('alice'),
];
const decidedByTheCommand: readonly TestRequest[] = [
  { method: 'POST', url: '/v1/orders/o-1/cancel' },
  { method: 'POST', url: '/v1/orders/o-1/payments', body: { amountMinor: 1, method: 'card' } },
];
const reading: readonly TestRequest[] = [
  { method: 'GET', url: '/v1/products/p-1/statistic' },
  { method: 'GET', url: '/v1/orders/o-1/events' },
];
const named = ({ method, url }: TestRequest) => `${method} ${url}`;

describe('access', () => {
  let api: TestApi;
  beforeEach(async () => {
    api = await startTestApi();
  });
  afterEach(() => api.close());

  for (const request of [...operatorsOnly, ...forOneself, ...decidedByTheCommand, ...reading]) {
    it(`needs credentials for ${named(request)}`, async () => {
      const answer = await api.send(request);
      expect([answer.statusCode, problemName(answer)]).to.deep.equal([401, 'unauthenticated']);
      expect(answer.headers['www-authenticate']).to.match(/^Bearer /);
      expect(api.calls).to.deep.equal([]);
    });
  }

  it('does not tell why credentials are wrong', async () => {
    const bodies = new Set<string>();
    for (const authorization of [
      undefined,
      'Bearer',
      'Bearer wrong',
      `Basic ${keys.operator}`,
      keys.operator,
      `Bearer ${keys.operator}x`,
      `Bearer ${keys.operator.slice(0, -1)}`,
      `Bearer ${keys.operator.toUpperCase()}`,
      `Bearer ${keys.operator} ${keys.alice}`,
      'Bearer a.b.c',
    ]) {
      const answer = await api.send({ ...order('alice'), headers: { authorization } });
      expect(answer.statusCode, authorization).to.equal(401);
      bodies.add(answer.body);
    }
    expect(bodies.size).to.equal(1);
    expect(api.calls).to.deep.equal([]);
  });

  it('asks for credentials before it reads the body', async () => {
    const answer = await api.send({ method: 'POST', url: '/v1/orders', body: '{' });
    expect(answer.statusCode).to.equal(401);
  });

  it('is open where everybody may look', async () => {
    for (const url of ['/livez', '/readyz', '/openapi.json']) {
      expect((await api.send({ method: 'GET', url })).statusCode, url).to.equal(200);
    }
    expect((await api.server.inject('/docs/')).statusCode).to.equal(200);
  });

  for (const request of operatorsOnly) {
    it(`keeps shoppers from ${named(request)}`, async () => {
      const answer = await api.send({ ...request, as: 'alice' });
      expect([answer.statusCode, problemName(answer)]).to.deep.equal([403, 'role-insufficient']);
      expect(api.calls).to.deep.equal([]);
      expect((await api.send({ ...request, as: 'operator' })).statusCode).to.be.oneOf([200, 201]);
    });
  }

  for (const request of forOneself) {
    it(`lets a shopper ${named(request)} for itself only`, async () => {
      const answer = await api.send({ ...request, as: 'bob' });
      expect([answer.statusCode, problemName(answer)]).to.deep.equal([403, 'not-yours']);
      expect(api.calls).to.deep.equal([]);
      for (const as of ['alice', 'operator'] as const) {
        expect((await api.send({ ...request, as })).statusCode).to.be.oneOf([200, 201]);
      }
    });
  }

  for (const request of decidedByTheCommand) {
    it(`tells the command of ${named(request)} who acts, and its refusal to the client`, async () => {
      api.answerWith(async () => ({ outcome: 'rejected', rejection: { reason: 'not-yours' } }));
      const answer = await api.send({ ...request, as: 'bob' });
      expect([answer.statusCode, problemName(answer)]).to.deep.equal([403, 'not-yours']);
      expect(api.calls[0]?.request.actingUser).to.equal('bob');
    });
  }

  it('lets tokens take their time', async () => {
    const slow = await startTestApi({
      authenticate: async (authorization) =>
        authorization === 'Bearer a.b.c' ? shopper('alice') : undefined,
    });
    const headers = { authorization: 'Bearer a.b.c' };
    expect((await slow.send({ ...order('alice'), headers })).statusCode).to.equal(201);
    expect((await slow.send({ ...order('bob'), headers })).statusCode).to.equal(403);
    expect((await slow.send(order('alice'))).statusCode).to.equal(401);
    await slow.close();
  });

  it('does not call a caller wrong when nobody can check', async () => {
    const { log, lines } = recordingLog();
    const blind = await startTestApi({
      log,
      authenticate: async () => {
        throw new AuthenticationUnavailable('no keys');
      },
    });
    const answer = await blind.send(order('alice'));
    expect([answer.statusCode, problemName(answer)]).to.deep.equal([503, 'unavailable']);
    expect(lines).to.have.length(1);
    await blind.close();
  });

  it('has a rule for every route under /v1, or does not start', async () => {
    const { fastify } = await import('fastify');
    const { controlAccess } = await import('../../../src/http/access-control.ts');
    const server = fastify();
    const failedLogins = { record: async () => undefined, mustWait: () => false, accept: () => {} };
    controlAccess(server, { authenticate: authenticateByKey, failedLogins });
    expect(() => server.get('/v1/open', async () => 'secret')).to.throw(/who may use it/);
    await server.close();
  });
});
