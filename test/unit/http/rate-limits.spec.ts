import { expect } from 'chai';
import { loadConfig } from '../../../src/config/load-config.ts';
import { keys, problemName, startTestApi, type TestApi, type TestRequest } from './api-server.ts';

const view: TestRequest = { method: 'POST', url: '/v1/products/p-1/views' };
const cancel: TestRequest = { method: 'POST', url: '/v1/orders/o-1/cancel' };

describe('rate limits', () => {
  let api: TestApi;
  afterEach(() => api.close());

  const statuses = async (times: number, request: TestRequest): Promise<readonly number[]> => {
    const seen: number[] = [];
    for (let turn = 0; turn < times; turn++) seen.push((await api.send(request)).statusCode);
    return seen;
  };

  it('hold for each shopper, and not for operators', async () => {
    api = await startTestApi({ rateLimits: { commandsPerMinute: 2 } });
    expect(await statuses(3, { ...cancel, as: 'alice' })).to.deep.equal([200, 200, 429]);
    expect(await statuses(2, { ...cancel, as: 'bob' })).to.deep.equal([200, 200]);
    expect(await statuses(4, { ...cancel, as: 'operator' })).to.deep.equal([200, 200, 200, 200]);
    expect(api.calls).to.have.length(8);
  });

  it('tell how long to wait', async () => {
    api = await startTestApi({ rateLimits: { commandsPerMinute: 1 } });
    await api.send({ ...cancel, as: 'alice' });
    const answer = await api.send({ ...cancel, as: 'alice' });
    expect(problemName(answer)).to.equal('rate-limited');
    expect(Number(answer.headers['retry-after'])).to.be.within(1, 60);
  });

  it('count all commands together, likes and views apart, and queries not at all', async () => {
    api = await startTestApi({ rateLimits: { commandsPerMinute: 2, likesAndViewsPerMinute: 3 } });
    const pay = {
      method: 'POST',
      url: '/v1/orders/o-1/payments',
      body: { amountMinor: 1, method: 'card' },
    } as const;
    const like = { method: 'PUT', url: '/v1/products/p-1/likes/alice' } as const;
    expect(await statuses(1, { ...cancel, as: 'alice' })).to.deep.equal([200]);
    expect(await statuses(2, { ...pay, as: 'alice' })).to.deep.equal([201, 429]);
    expect(await statuses(2, { ...view, as: 'alice' })).to.deep.equal([201, 201]);
    expect(await statuses(2, { ...like, as: 'alice' })).to.deep.equal([200, 429]);
    const query = { method: 'GET', url: '/v1/products/p-1/statistic', as: 'alice' } as const;
    expect(await statuses(5, query)).to.deep.equal([200, 200, 200, 200, 200]);
  });

  it('are the documented ones unless somebody says otherwise', async () => {
    const { config } = loadConfig({ env: {}, envFile: '/dev/null' });
    expect(config.rateLimits).to.deep.equal({
      commandsPerMinute: 600,
      likesAndViewsPerMinute: 6000,
      failedLoginsPerMinute: 60,
    });
    expect(config.http.requireIfMatch).to.equal(false);
    api = await startTestApi({ rateLimits: config.rateLimits });
    const seen = await statuses(601, { ...cancel, as: 'alice' });
    expect(seen.filter((status) => status === 200)).to.have.length(600);
    expect(seen.at(-1)).to.equal(429);
  });

  it('are off at zero', async () => {
    api = await startTestApi({ rateLimits: { commandsPerMinute: 0 } });
    expect(new Set(await statuses(700, { ...view, as: 'alice' }))).to.deep.equal(new Set([201]));
  });
});

describe('guessing keys', () => {
  let api: TestApi;
  const from = (remoteAddress: string, key: string): TestRequest => ({
    ...view,
    remoteAddress,
    headers: { authorization: `Bearer ${key}` },
  });
  beforeEach(async () => {
    api = await startTestApi({ rateLimits: { failedLoginsPerMinute: 3 } });
  });
  afterEach(() => api.close());

  const guess = async (times: number, address: string): Promise<readonly number[]> => {
    const seen: number[] = [];
    for (let turn = 0; turn < times; turn++)
      seen.push((await api.send(from(address, `guess-${turn}`))).statusCode);
    return seen;
  };

  it('is stopped after a few tries, also when the next one is right', async () => {
    expect(await guess(5, '10.0.0.1')).to.deep.equal([401, 401, 401, 429, 429]);
    const right = await api.send(from('10.0.0.1', keys.alice));
    expect([right.statusCode, problemName(right)]).to.deep.equal([429, 'too-many-failed-logins']);
    expect(Number(right.headers['retry-after'])).to.be.within(1, 60);
    expect(api.calls).to.deep.equal([]);
  });

  it('keeps nobody else waiting: neither other addresses nor who came from this one before', async () => {
    expect((await api.send(from('10.0.0.1', keys.bob))).statusCode).to.equal(201);
    await guess(5, '10.0.0.1');
    expect((await api.send(from('10.0.0.2', keys.alice))).statusCode).to.equal(201);
    expect((await api.send(from('10.0.0.1', keys.bob))).statusCode).to.equal(201);
    expect((await api.send(from('10.0.0.1', keys.alice))).statusCode).to.equal(429);
  });

  it('counts a network of IPv6 addresses as one', async () => {
    await guess(4, '2001:db8::1');
    expect((await api.send(from('2001:db8::2', 'guess'))).statusCode).to.equal(429);
    expect((await api.send(from('2001:db8:1::1', 'guess'))).statusCode).to.equal(401);
  });
});
