import { expect } from 'chai';
import { type ProjectionAdmin, UnknownProjection } from '../../../src/projection-admin/projection-admin.ts';
import { problemName, startTestApi, type TestApi, type TestRequest } from './api-server.ts';
import { goodProjections } from './good-projections.ts';

const requireKnown = (name: string): void => {
  const known = ['product-statistic', 'order-view'];
  if (!known.includes(name)) throw new UnknownProjection(name, known);
};

describe('projections over HTTP', () => {
  const asked: unknown[] = [];
  const projections: Partial<ProjectionAdmin> = {
    pause: async (projection, { because, dryRun, who }) => {
      requireKnown(projection);
      asked.push(['pause', projection, because, dryRun]);
      return goodProjections.pause(projection, { because, dryRun, who });
    },
    resume: async (projection, options) => {
      requireKnown(projection);
      asked.push(['resume', projection, options.dryRun]);
      return goodProjections.resume(projection, options);
    },
  };
  let api: TestApi;
  before(async () => {
    api = await startTestApi({ projections });
  });
  after(() => api.close());
  beforeEach(() => {
    asked.length = 0;
  });
  const post = (path: string, body?: unknown): TestRequest => ({
    method: 'POST',
    url: `/admin/projections/${path}`,
    as: 'operator',
    ...(body !== undefined && { body }),
  });

  it('are listed, each with its state', async () => {
    const { statusCode, json } = await api.send({ method: 'GET', url: '/admin/projections', as: 'operator' });
    expect(statusCode).to.equal(200);
    expect(json).to.deep.equal({
      projections: [
        {
          name: 'product-statistic',
          state: 'paused',
          pause: { by: 'operator:ann', since: '1970-01-01T00:00:01.000Z', because: 'a bad release' },
        },
        { name: 'order-view', state: 'active', pause: null },
      ],
    });
  });

  it('are paused and resumed in the name of the caller, with a reason or without', async () => {
    const { statusCode, json } = await api.send(post('order-view/pause', { reason: 'a bad release' }));
    expect(statusCode).to.equal(200);
    expect(json).to.deep.include({ projection: 'order-view', changed: true, stillCommitting: false });
    expect(json).to.have.nested.property('pause.because', 'a bad release');
    expect(json)
      .to.have.nested.property('pause.by')
      .that.matches(/^operator/);
    await api.send(post('order-view/pause'));
    const resumed = await api.send(post('order-view/resume'));
    expect(resumed.json).to.have.nested.property('ended.by', 'operator:ann');
    expect(asked).to.deep.equal([
      ['pause', 'order-view', 'a bad release', false],
      ['pause', 'order-view', null, false],
      ['resume', 'order-view', false],
    ]);
  });

  it('that do not exist are told apart from those that do', async () => {
    for (const path of ['orders/pause', 'orders/resume']) {
      const answer = await api.send(post(path));
      expect([answer.statusCode, problemName(answer)]).to.deep.equal([404, 'projection-unknown']);
      expect(answer.json.detail).to.equal(
        'There is no projection orders. It is one of product-statistic, order-view',
      );
    }
  });

  it('take no reason that nobody could read, and no condition that nobody checks', async () => {
    for (const body of [{ reason: '' }, { reason: 'a\nb' }, { because: 'x' }, { reason: 'x'.repeat(501) }])
      expect((await api.send(post('order-view/pause', body))).statusCode).to.equal(400);
    const conditional = await api.send({ ...post('order-view/pause'), headers: { 'if-match': '"1"' } });
    expect(problemName(conditional)).to.equal('if-match-not-applicable');
    expect(asked).to.deep.equal([]);
  });

  it('are for operators only', async () => {
    for (const request of [
      { method: 'GET', url: '/admin/projections' } as const,
      post('order-view/pause'),
      post('order-view/resume'),
    ]) {
      expect((await api.send({ ...request, as: 'alice' })).statusCode).to.equal(403);
      const { as: _, ...nobody } = request as TestRequest;
      expect((await api.send(nobody)).statusCode).to.equal(401);
    }
    expect(asked).to.deep.equal([]);
  });
});
