import { expect } from 'chai';
import { VersionConflict } from '../../../src/journal/append-events.ts';
import { recordingLog } from '../../support/silent-log.ts';
import { problemName, startTestApi, type TestApi } from './api-server.ts';

const view = { method: 'POST', url: '/v1/products/p-1/views', as: 'alice' } as const;

describe('HTTP server', () => {
  const { log, lines } = recordingLog();
  let api: TestApi;
  let healthy: () => Promise<void>;

  beforeEach(async () => {
    lines.length = 0;
    healthy = async () => {};
    api = await startTestApi({ log, healthCheck: () => healthy() });
  });
  afterEach(() => api.close());

  const failWith = async (error: Error) => {
    api.answerWith(() => Promise.reject(error));
    return api.send(view);
  };
  const withCode = (code: string, message = 'trouble'): Error => Object.assign(new Error(message), { code });

  it('gives every answer an id of its own, whatever the client calls its request', async () => {
    const headers = { 'x-request-id': 'mine', 'idempotency-key': 'mine' };
    const ids = [
      await api.send({ ...view, headers }),
      await api.send({ ...view, headers }),
      await api.send({ method: 'GET', url: '/livez' }),
      await api.send({ method: 'GET', url: '/nowhere' }),
      await api.send({ method: 'GET', url: '/v1/products/%zz/statistic' }),
    ].map((answer) => answer.headers['x-request-id']);
    expect(new Set(ids).size).to.equal(ids.length);
    expect(ids).not.to.include('mine');
  });

  it('answers an unknown path with a problem, without its query', async () => {
    const answer = await api.send({ method: 'GET', url: '/v2/nothing?secret=1' });
    expect(answer.statusCode).to.equal(404);
    expect(answer.json).to.include({ type: 'urn:millrace:problem:not-found', detail: 'GET /v2/nothing' });
  });

  it('tells a path that is unknown from a method that is', async () => {
    const answer = await api.send({ method: 'GET', url: '/v1/products/p-1/likes/alice' });
    expect(answer.statusCode).to.equal(405);
    expect(answer.headers.allow).to.equal('DELETE, PUT');
    expect((await api.send({ method: 'PATCH', url: '/livez' })).headers.allow).to.equal('GET, HEAD');
    expect((await api.send({ method: 'POST', url: '/v1/products/p-1/likes' })).statusCode).to.equal(404);
    const nameless = await api.send({ method: 'POST', url: '/v1/orders//cancel', as: 'operator' });
    expect(problemName(nameless)).to.equal('text-not-allowed');
  });

  it('does not read a body that belongs nowhere', async () => {
    const headers = { 'content-type': 'application/xml' };
    const answer = await api.send({ method: 'POST', url: '/v1/nothing', body: '<', headers });
    expect(problemName(answer)).to.equal('not-found');
  });

  it('answers a URL that cannot be read with a problem', async () => {
    const answer = await api.send({ method: 'GET', url: '/v1/products/%zz/statistic', as: 'alice' });
    expect(answer.statusCode).to.equal(400);
    expect(problemName(answer)).to.equal('malformed-url');
  });

  it('logs what went wrong inside and tells the client nothing of it', async () => {
    const answer = await failWith(new Error('password is s3cret'));
    expect(answer.statusCode).to.equal(500);
    expect(answer.body).not.to.include('s3cret');
    expect(lines.map(({ msg }) => msg)).to.deep.equal(['A request failed']);
    expect(lines[0]).to.include({ requestId: answer.headers['x-request-id'] });
  });

  it('does not let an error choose its own status', async () => {
    const answer = await failWith(Object.assign(new Error('password is s3cret'), { statusCode: 418 }));
    expect(answer.statusCode).to.equal(500);
    expect(answer.body).not.to.include('s3cret');
  });

  it('answers a lost race with a problem of its own', async () => {
    const answer = await failWith(new VersionConflict('lost'));
    expect([answer.statusCode, problemName(answer)]).to.deep.equal([409, 'conflict']);
    expect(answer.headers['retry-after']).to.equal('1');
  });

  const passing: readonly [string, Error][] = [
    ['a refused connection', withCode('ECONNREFUSED')],
    ['all addresses refused', new AggregateError([withCode('ECONNREFUSED')], '')],
    ['a connection cut off', new Error('Connection terminated unexpectedly')],
    ['no connection in time', new Error('timeout exceeded when trying to connect')],
    ['a server that shuts down', withCode('57P01')],
    ['a statement that took too long', withCode('57014')],
    ['too many connections', withCode('53300')],
    ['a deadlock', withCode('40P01')],
    ['trouble wrapped by a library', new Error('Query failed', { cause: withCode('08006') })],
    ['an error that says that retrying helps', Object.assign(new Error('busy'), { retriable: true })],
  ];
  for (const [what, error] of passing) {
    it(`answers ${what} with 503 and when to come again`, async () => {
      const answer = await failWith(error);
      expect([answer.statusCode, problemName(answer)]).to.deep.equal([503, 'unavailable']);
      expect(answer.headers['retry-after']).to.equal('1');
      expect(lines.map(({ level }) => level)).to.deep.equal([40]);
    });
  }

  it('takes a broken statement for the bug it is', async () => {
    expect((await failWith(withCode('42601', 'syntax error'))).statusCode).to.equal(500);
    expect((await failWith(withCode('ENOENT'))).statusCode).to.equal(500);
  });

  it('is ready only while its parts are', async () => {
    expect((await api.send({ method: 'GET', url: '/livez' })).statusCode).to.equal(200);
    expect((await api.send({ method: 'GET', url: '/readyz?verbose' })).statusCode).to.equal(200);
    healthy = () => Promise.reject(new Error('connection refused'));
    const failing = await api.send({ method: 'GET', url: '/readyz' });
    expect(failing.statusCode).to.equal(503);
    expect(failing.json.checks).to.deep.equal([
      { name: 'database', status: 'failing', reason: 'connection refused' },
    ]);
  });

  it('allows nothing to run in, frame or keep an answer, and no other origin to read it', async () => {
    const answers = [
      await api.send(view),
      await api.send({ ...view, headers: { origin: 'https://elsewhere.test' } }),
      await api.send({ method: 'OPTIONS', url: '/v1/orders', headers: { origin: 'https://elsewhere.test' } }),
      await api.send({ method: 'GET', url: '/nowhere' }),
      await api.send({ method: 'GET', url: '/v1/products/%zz/statistic' }),
    ];
    for (const { headers } of answers) {
      expect(headers).to.include({
        'x-content-type-options': 'nosniff',
        'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
        'cache-control': 'no-store',
      });
      const cors = Object.keys(headers).filter((name) => name.startsWith('access-control-'));
      expect(cors).to.deep.equal([]);
    }
  });
});

describe('HTTP server without the API', () => {
  it('answers for its health, with its figures, and nothing else', async () => {
    const { buildServer } = await import('../../../src/http/server.ts');
    const server = buildServer({
      log: recordingLog().log,
      bodyBytesMax: 1024,
      requestTimeoutMs: 1000,
      newRequestId: () => 'id',
      healthChecks: {},
      scrape: async () => ({ contentType: 'text/plain', text: 'up 1' }),
      observer: { answered: () => {} },
    });
    expect((await server.inject('/readyz')).statusCode).to.equal(200);
    expect((await server.inject('/metrics')).body).to.equal('up 1');
    for (const url of ['/v1/products', '/docs', '/openapi.json']) {
      expect((await server.inject(url)).statusCode, url).to.equal(404);
    }
    await server.close();
  });
});
