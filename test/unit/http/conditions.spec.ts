import { createHash } from 'node:crypto';
import { expect } from 'chai';
import fc from 'fast-check';
import { parseIdempotencyKey, parseVersionTag } from '../../../src/http/header-values.ts';
import { problemName, startTestApi, type TestApi, type TestRequest, type Who } from './api-server.ts';

const commands: readonly TestRequest[] = [
  {
    method: 'POST',
    url: '/v1/products',
    as: 'operator',
    body: { name: 'Mill', priceMinor: 1, currency: 'EUR', stock: 1 },
  },
  {
    method: 'POST',
    url: '/v1/products/p-1/stock-adjustments',
    as: 'operator',
    body: { delta: 1, reason: 'x' },
  },
  { method: 'POST', url: '/v1/products/p-1/views', as: 'operator' },
  { method: 'PUT', url: '/v1/products/p-1/likes/alice', as: 'operator' },
  { method: 'DELETE', url: '/v1/products/p-1/likes/alice', as: 'operator' },
  {
    method: 'POST',
    url: '/v1/orders',
    as: 'operator',
    body: { userId: 'alice', items: [{ productId: 'p-1', quantity: 1 }] },
  },
  { method: 'POST', url: '/v1/orders/o-1/cancel', as: 'operator' },
  {
    method: 'POST',
    url: '/v1/orders/o-1/payments',
    as: 'operator',
    body: { amountMinor: 1, method: 'card' },
  },
  { method: 'POST', url: '/v1/payments/pay-1/confirm', as: 'operator' },
  { method: 'POST', url: '/v1/payments/pay-1/fail', as: 'operator' },
];
const conditional = ['stock-adjustments', 'likes', 'cancel', 'confirm', 'fail'];
const transitions = ['stock-adjustments', 'cancel', 'confirm', 'fail'];
const isOneOf = (names: readonly string[], { url }: TestRequest) =>
  names.some((name) => url.includes(`/${name}`));

describe('Idempotency-Key', () => {
  let api: TestApi;
  beforeEach(async () => {
    api = await startTestApi();
  });
  afterEach(() => api.close());

  for (const command of commands) {
    it(`is needed by ${command.method} ${command.url}`, async () => {
      const missing = await api.send({ ...command, headers: { 'idempotency-key': undefined } });
      expect([missing.statusCode, problemName(missing)]).to.deep.equal([400, 'idempotency-key-missing']);
      expect(api.calls).to.deep.equal([]);
      expect((await api.send(command)).statusCode).to.be.oneOf([200, 201]);
    });
  }

  it('is 1 to 255 visible characters, quoted or bare', async () => {
    const send = (key: string) =>
      api.send({
        method: 'POST',
        url: '/v1/products/p-1/views',
        as: 'alice',
        headers: { 'idempotency-key': key },
      });
    for (const key of ['a', 'x'.repeat(255), `"${'x'.repeat(255)}"`, '"abc"', 'a/b;c=~']) {
      expect((await send(key)).statusCode, key).to.equal(201);
    }
    for (const key of ['x'.repeat(256), '""', '"', '"abc', 'abc"', 'a b', 'a, b', 'caf\u00e9', 'a"b']) {
      expect(problemName(await send(key)), key).to.equal('idempotency-key-invalid');
    }
  });

  it('is the same with and without quotes', () => {
    const bare = fc.stringMatching(/^[\x21\x23-\x7e]{1,255}$/);
    fc.assert(
      fc.property(bare, (key) => {
        expect(parseIdempotencyKey(key)).to.equal(key);
        expect(parseIdempotencyKey(`"${key}"`)).to.equal(key);
      }),
    );
  });

  const claimOf = async (request: TestRequest) => {
    await api.send(request);
    return api.calls.at(-1)?.request.idempotency ?? expect.fail('no command');
  };

  it('counts within its caller and route', async () => {
    const like = (as: Who, method: 'PUT' | 'DELETE' = 'PUT', productId = 'p-1') =>
      claimOf({
        method,
        url: `/v1/products/${productId}/likes/alice`,
        as,
        headers: { 'idempotency-key': 'same' },
      });
    const first = await like('alice');
    expect(first).to.include({
      key: 'same',
      scope: 'shopper:alice PUT /v1/products/:productId/likes/:userId',
    });
    expect((await like('operator')).scope).to.not.equal(first.scope);
    expect((await like('alice', 'DELETE')).scope).to.not.equal(first.scope);
    const elsewhere = await like('alice', 'PUT', 'p-2');
    expect(elsewhere.scope).to.equal(first.scope);
    expect(elsewhere.fingerprint.equals(first.fingerprint)).to.equal(false);
  });

  it('goes with a fingerprint of method, path and the bytes of the body', async () => {
    const body = '{ "userId":"alice" }';
    const url = '/v1/products/p-1/views';
    const { fingerprint } = await claimOf({ method: 'POST', url, as: 'alice', body });
    const expected = createHash('sha256').update(`POST\n${url}\n${body}`).digest();
    expect(fingerprint.equals(expected)).to.equal(true);
    const spaced = await claimOf({ method: 'POST', url, as: 'alice', body: '{"userId":"alice"}' });
    expect(spaced.fingerprint.equals(expected)).to.equal(false);
    const again = await claimOf({ method: 'POST', url, as: 'alice', body });
    expect(again.fingerprint.equals(expected)).to.equal(true);
    const none = await claimOf({ method: 'POST', url, as: 'alice' });
    expect(none.fingerprint.equals(createHash('sha256').update(`POST\n${url}\n`).digest())).to.equal(true);
  });

  it('brings the first answer back and says so', async () => {
    const answer = { productId: 'p-1', version: 1 };
    api.answerWith(async () => ({ outcome: 'accepted', answer, replayed: true, consistencyToken: '1' }));
    const response = await api.send({ method: 'POST', url: '/v1/products/p-1/views', as: 'alice' });
    expect(response.statusCode).to.equal(201);
    expect(response.headers['idempotent-replayed']).to.equal('true');
    expect(response.json).to.deep.equal(answer);
    api.answerWith(async () => ({ outcome: 'accepted', answer, replayed: false, consistencyToken: '1' }));
    const first = await api.send({ method: 'POST', url: '/v1/products/p-1/views', as: 'alice' });
    expect(first.headers).not.to.have.property('idempotent-replayed');
  });

  it('in flight is 409, used for something else 422', async () => {
    const view: TestRequest = { method: 'POST', url: '/v1/products/p-1/views', as: 'alice' };
    api.answerWith(async () => ({ outcome: 'rejected', rejection: { reason: 'idempotency-key-in-flight' } }));
    const inFlight = await api.send(view);
    expect([inFlight.statusCode, problemName(inFlight)]).to.deep.equal([409, 'idempotency-key-in-flight']);
    expect(inFlight.headers['retry-after']).to.equal('1');
    api.answerWith(async () => ({ outcome: 'rejected', rejection: { reason: 'idempotency-key-reused' } }));
    const reused = await api.send(view);
    expect([reused.statusCode, problemName(reused)]).to.deep.equal([422, 'idempotency-key-reused']);
  });
});

describe('If-Match', () => {
  let api: TestApi;
  let strict: TestApi;
  before(async () => {
    api = await startTestApi();
    strict = await startTestApi({ requireIfMatch: true });
  });
  after(() => Promise.all([api.close(), strict.close()]));
  beforeEach(() => {
    api.calls.length = 0;
    strict.calls.length = 0;
  });

  for (const command of commands) {
    const named = `${command.method} ${command.url}`;
    if (isOneOf(conditional, command)) {
      it(`is passed on by ${named}`, async () => {
        expect((await api.send({ ...command, headers: { 'if-match': '"5"' } })).statusCode).to.equal(200);
        expect(api.calls[0]?.request.expectedVersion).to.equal(5);
        await api.send(command);
        expect(api.calls[1]?.request.expectedVersion).to.equal(undefined);
      });
    } else {
      it(`is not ignored by ${named}, which changes nothing that has a version`, async () => {
        const answer = await api.send({ ...command, headers: { 'if-match': '"5"' } });
        expect([answer.statusCode, problemName(answer)]).to.deep.equal([400, 'if-match-not-applicable']);
        expect(api.calls).to.deep.equal([]);
      });
    }
    const needs = isOneOf(transitions, command);
    it(`${needs ? 'must' : 'need not'} be there for ${named} where the operator wants it`, async () => {
      const answer = await strict.send(command);
      if (needs) {
        expect([answer.statusCode, problemName(answer)]).to.deep.equal([428, 'if-match-required']);
        expect((await strict.send({ ...command, headers: { 'if-match': '"1"' } })).statusCode).to.equal(200);
      } else {
        expect(answer.statusCode).to.be.oneOf([200, 201]);
      }
    });
  }

  it('takes one strong version and nothing else', async () => {
    const cancel: TestRequest = { method: 'POST', url: '/v1/orders/o-1/cancel', as: 'alice' };
    for (const tag of [
      'W/"5"',
      '*',
      '"1", "2"',
      '5',
      '""',
      '"-1"',
      '"05"',
      '"1.5"',
      '"9007199254740992"',
      '"x"',
    ]) {
      const answer = await api.send({ ...cancel, headers: { 'if-match': tag } });
      expect([answer.statusCode, problemName(answer)], tag).to.deep.equal([400, 'if-match-invalid']);
    }
    expect(api.calls).to.deep.equal([]);
  });

  it('understands every version it hands out', () => {
    fc.assert(
      fc.property(fc.nat({ max: Number.MAX_SAFE_INTEGER }), (version) => {
        expect(parseVersionTag(`"${version}"`)).to.equal(version);
      }),
    );
  });

  it('from yesterday is 412, with the version of today', async () => {
    const stale = await startTestApi();
    stale.answerWith(async () => ({
      outcome: 'rejected',
      rejection: { reason: 'version-differs', currentVersion: 6 },
    }));
    const answer = await stale.send({
      method: 'POST',
      url: '/v1/orders/o-1/cancel',
      as: 'alice',
      headers: { 'if-match': '"5"' },
    });
    expect([answer.statusCode, problemName(answer)]).to.deep.equal([412, 'version-differs']);
    expect(answer.json.currentVersion).to.equal(6);
    await stale.close();
  });
});
