import { expect } from 'chai';
import type { HttpObserver } from '../../../src/http/observe-requests.ts';
import { startTestApi, type TestApi } from './api-server.ts';

describe('GET /metrics', () => {
  it('needs no credentials and answers with what is counted', async () => {
    const contentType = 'text/plain; version=0.0.4; charset=utf-8';
    const api = await startTestApi({ scrape: async () => ({ contentType, text: 'orders_total 7\n' }) });
    const answer = await api.send({ method: 'GET', url: '/metrics' });
    expect(answer.statusCode).to.equal(200);
    expect(answer.headers['content-type']).to.equal(contentType);
    expect(answer.body).to.equal('orders_total 7\n');
    await api.close();
  });
});

describe('requests that are counted', () => {
  const seen: Parameters<HttpObserver['answered']>[0][] = [];
  let api: TestApi;
  before(async () => {
    api = await startTestApi({ observer: { answered: (request) => void seen.push(request) } });
  });
  after(() => api.close());
  beforeEach(() => {
    seen.length = 0;
  });
  const counted = () => seen.map(({ method, route, status }) => `${method} ${route} ${status}`);

  it('are known by their route and status, not by the ids in them', async () => {
    await api.send({ method: 'POST', url: '/v1/products/p-1/views', as: 'alice' });
    await api.send({ method: 'POST', url: '/v1/products/p-2/views' });
    await api.send({ method: 'POST', url: '/v1/products', as: 'operator', body: '{' });
    expect(counted()).to.deep.equal([
      'POST /v1/products/:productId/views 201',
      'POST /v1/products/:productId/views 401',
      'POST /v1/products 400',
    ]);
    expect(seen.every(({ durationMs }) => durationMs >= 0)).to.equal(true);
  });

  it('are all one when nobody serves them: anybody can make up paths', async () => {
    await api.send({ method: 'GET', url: '/made-up-1' });
    await api.send({ method: 'GET', url: '/v1/products/%zz/statistic' });
    await api.send({ method: 'PATCH', url: '/livez' });
    expect(new Set(seen.map(({ route }) => route))).to.deep.equal(new Set(['none']));
  });
});
