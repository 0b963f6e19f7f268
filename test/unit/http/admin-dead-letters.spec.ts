import { expect } from 'chai';
import type { DeadLetterAdmin } from '../../../src/dlq-admin/dlq-admin.ts';
import { TopicReadError } from '../../../src/kafka/topic-reader.ts';
import { OperatorError } from '../../../src/operator-error.ts';
import { recordingLog } from '../../support/silent-log.ts';
import { problemName, startTestApi, type TestApi, type TestRequest } from './api-server.ts';
import { deadLetter, decision, goodDeadLetters } from './good-dead-letters.ts';

/** Dead letters that remember what they were asked. */
const recording = () => {
  const asked: unknown[] = [];
  const deadLetters: Partial<DeadLetterAdmin> = {
    list: (request) => {
      asked.push(request);
      return goodDeadLetters.list(request);
    },
    stats: (request) => {
      asked.push(request);
      return goodDeadLetters.stats(request);
    },
    show: (place) => {
      asked.push(place);
      return goodDeadLetters.show(place);
    },
    replay: (selection, options) => {
      asked.push([selection, options]);
      return goodDeadLetters.replay(selection, options);
    },
    drop: (selection, options) => {
      asked.push([selection, options]);
      return goodDeadLetters.drop(selection, options);
    },
  };
  return { deadLetters, asked };
};

const nothing = {
  topic: undefined,
  projection: undefined,
  kind: undefined,
  exception: undefined,
  key: undefined,
  since: undefined,
  until: undefined,
};

describe('dead letters over HTTP', () => {
  const apis: TestApi[] = [];
  afterEach(async () => {
    for (const api of apis.splice(0)) await api.close();
  });
  const apiOver = async (deadLetters: Partial<DeadLetterAdmin>): Promise<TestApi> => {
    const api = await startTestApi({ deadLetters, log: recordingLog().log });
    apis.push(api);
    return api;
  };
  const get = (path: string): TestRequest => ({
    method: 'GET',
    url: `/admin/dead-letters${path}`,
    as: 'operator',
  });
  const post = (path: string, body: unknown): TestRequest => ({
    method: 'POST',
    url: `/admin/dead-letters${path}`,
    body,
    as: 'operator',
  });

  it('are listed with every filter, and with fifty when not told how many', async () => {
    const { deadLetters, asked } = recording();
    const api = await apiOver(deadLetters);
    const query =
      'topic=like-events&projection=p&kind=parked&exception=Range%20E&key=k%2F1&since=2026-05-31T10:00:00Z&until=2026-06-01T00:00Z&limit=10000&all=true';
    const { json } = await api.send(get(`?${query}`));
    expect(json.letters).to.deep.equal([
      {
        id: 'like-events@17',
        topic: 'like-events',
        projection: 'product-statistic',
        projectionVersion: 1,
        kind: 'failed',
        exception: 'RangeError',
        message: 'Too many',
        key: 'mill-1',
        original: { topic: 'spec.like-events', partition: 2, offset: 41 },
        replays: 1,
        failedAt: '1970-01-01T00:00:01.000Z',
        valueBytes: 12,
        valueAtOffset: null,
        state: 'open',
        decision: null,
      },
    ]);
    await api.send(get(''));
    await api.send(get('/stats?topic=order-events'));
    expect(asked).to.deep.equal([
      {
        topic: 'like-events',
        projection: 'p',
        kind: 'parked',
        exception: 'Range E',
        key: 'k/1',
        since: new Date('2026-05-31T10:00:00Z'),
        until: new Date('2026-06-01T00:00:00Z'),
        limit: 10_000,
        all: true,
      },
      { ...nothing, limit: 50, all: false },
      { ...nothing, topic: 'order-events', all: false },
    ]);
    const wrong = [
      'limit=0',
      'limit=x',
      'kind=odd',
      'topic=none',
      'since=yesterday',
      'all=yes',
      'unknown=1',
      'key=',
    ];
    for (const wrongQuery of wrong)
      expect((await api.send(get(`?${wrongQuery}`))).statusCode, wrongQuery).to.equal(400);
  });

  it('are for operators only', async () => {
    const { deadLetters, asked } = recording();
    const api = await apiOver(deadLetters);
    for (const request of [
      get(''),
      get('/stats'),
      get('/like-events@1'),
      post('/replay', { ids: ['like-events@1'] }),
    ])
      expect(problemName(await api.send({ ...request, as: 'alice' }))).to.equal('role-insufficient');
    expect(asked).to.deep.equal([]);
  });

  it('are shown one by one, by every form of their id', async () => {
    const { deadLetters, asked } = recording();
    const api = await apiOver(deadLetters);
    const { json } = await api.send(get('/like-events@17'));
    expect(json).to.deep.include({
      id: 'like-events@17',
      value: { unreadable: 'not in this spec', hex: '6279746573', isCut: false },
      stack: 'RangeError: Too many\n    at x',
    });
    expect(json.history).to.have.nested.property('[0].doneAt', '1970-01-01T00:00:03.000Z');
    await api.send(get('/like-events.dlq%2F3@17'));
    expect(asked).to.deep.equal([
      { topic: 'spec.like-events.dlq', partition: 0, offset: 17 },
      { topic: 'spec.like-events.dlq', partition: 3, offset: 17 },
    ]);
    expect((await api.send(get('/nowhere@17'))).statusCode).to.equal(400);
    const empty = await apiOver({ show: async () => undefined });
    const unknown = await empty.send(get('/like-events@18'));
    expect([unknown.statusCode, problemName(unknown)]).to.deep.equal([404, 'dead-letter-unknown']);
  });

  it('are replayed when named, and described only when it is said twice', async () => {
    const { deadLetters, asked } = recording();
    const api = await apiOver(deadLetters);
    const named = await api.send(post('/replay', { ids: ['like-events@17'] }));
    expect(named.json).to.deep.include({ outcome: 'replayed', replayId: decision.replayId, more: false });
    const described = { filter: { kind: 'failed', since: '2026-05-31T10:00:00Z' } };
    expect((await api.send(post('/replay', described))).json).to.include({ outcome: 'would-replay' });
    await api.send(post('/replay', { ...described, dryRun: false, limit: 7, force: true }));
    expect((await api.send(post('/replay', { key: 'k' }))).json).to.include({ outcome: 'would-replay' });
    await api.send(post('/replay', { key: 'k', topic: 'like-events', projection: 'p', dryRun: false }));
    const [first, , third, , fifth] = asked as [object, { who: string; dryRun: boolean; force: boolean }][];
    expect(first?.[0]).to.deep.equal({
      by: 'ids',
      places: [{ topic: 'spec.like-events.dlq', partition: 0, offset: 17 }],
    });
    expect(first?.[1].who).to.match(/^operator:/);
    expect(first?.[1]).to.include({ dryRun: false, force: false });
    expect(third).to.deep.include({
      by: 'filter',
      filter: { ...nothing, kind: 'failed', since: new Date('2026-05-31T10:00:00Z') },
      limit: 7,
    });
    expect(third?.[1]).to.include({ dryRun: false, force: true });
    expect(fifth?.[0]).to.deep.equal({ by: 'key', key: 'k', topic: 'like-events', projection: 'p' });
  });

  it('are not touched by a body that says nothing, or two things', async () => {
    const { deadLetters, asked } = recording();
    const api = await apiOver(deadLetters);
    const wrong = [
      {},
      { ids: [] },
      { ids: ['like-events@1'], key: 'k' },
      { key: 'k', filter: {} },
      { filter: { limit: 1 } },
      { ids: ['like-events'] },
      { ids: ['nowhere@1'] },
    ];
    for (const path of ['/replay', '/drop'])
      for (const body of wrong)
        expect((await api.send(post(path, body))).statusCode, JSON.stringify(body)).to.equal(400);
    expect((await api.send(post('/drop', { ids: ['like-events@1'], force: true }))).statusCode).to.equal(400);
    expect(asked).to.deep.equal([]);
  });

  it('let a version be skipped in the name of the caller, or say why not', async () => {
    const asked: { readonly who: string; readonly dryRun: boolean }[] = [];
    const api = await apiOver({
      skipVersion: async (request, options) => {
        asked.push(options);
        return goodDeadLetters.skipVersion(request, options);
      },
    });
    const told = { projection: 'order-view', key: 'o-1' };
    expect((await api.send(post('/skip-version', told))).json).to.deep.equal({
      ...told,
      outcome: 'skipped',
      step: 'order-versions',
      version: 3,
      next: 5,
      releasedRecords: 1,
    });
    const named = { ...told, version: 7, step: 'order-versions', dryRun: true };
    expect((await api.send(post('/skip-version', named))).json).to.include({
      outcome: 'would-skip',
      version: 7,
    });
    expect(asked.map(({ who, dryRun }) => [/^operator:/.test(who), dryRun])).to.deep.equal([
      [true, false],
      [true, true],
    ]);
    for (const wrong of [{}, { projection: 'p' }, { ...told, version: 0 }, { ...told, version: '1' }])
      expect((await api.send(post('/skip-version', wrong))).statusCode, JSON.stringify(wrong)).to.equal(400);

    const refusing = await apiOver({
      skipVersion: async () => ({ outcome: 'refused', reason: 'held', steps: ['s'], next: 2 }),
    });
    const refused = await refusing.send(post('/skip-version', { ...told, version: 3 }));
    expect([refused.statusCode, problemName(refused)]).to.deep.equal([409, 'version-not-skipped']);
    expect(refused.json).to.deep.include({ reason: 'held', steps: ['s'], next: 2 });
  });

  it('are dropped in the name of the caller', async () => {
    const { deadLetters, asked } = recording();
    const api = await apiOver(deadLetters);
    expect((await api.send(post('/drop', { filter: {} }))).json.outcome).to.equal('would-drop');
    const { json } = await api.send(post('/drop', { ids: ['order-events@1'] }));
    expect(json).to.include({ outcome: 'dropped', releasedKeys: 1 });
    expect((asked[1] as [unknown, { who: string }])[1].who).to.match(/^operator:/);
  });

  it('say why nothing was done', async () => {
    const refused = [
      {
        reason: 'parked' as const,
        letters: 1,
        examples: [deadLetter.place],
        projection: 'order-view',
        topic: 'spec.order-events',
        key: 'o-1',
      },
    ];
    const report = { letters: [], refused, more: false, outcome: 'refused' as const };
    const stubborn = await apiOver({
      replay: async () => ({ ...report, replayId: null, releasedKeys: 0, rounds: 0, stillParked: 0 }),
      drop: async () => ({ outcome: 'busy' }),
    });
    const answer = await stubborn.send(post('/replay', { ids: ['like-events@17'] }));
    expect([answer.statusCode, problemName(answer)]).to.deep.equal([409, 'dead-letters-refused']);
    expect(answer.json.refused).to.deep.equal([
      { ...refused[0], examples: ['like-events@17'], topic: 'order-events' },
    ]);
    const busy = await stubborn.send(post('/drop', { ids: ['like-events@17'] }));
    expect([busy.statusCode, problemName(busy)]).to.deep.equal([409, 'dead-letters-busy']);
    expect(busy.headers).to.have.property('retry-after');
  });

  it('cannot be told of while the brokers do not answer', async () => {
    const cause = new TopicReadError('Kafka cannot be read');
    const away = await apiOver({
      list: () => Promise.reject(new OperatorError('Kafka cannot be read', { remedy: 'Start it', cause })),
    });
    expect(problemName(await away.send(get('')))).to.equal('unavailable');
  });

  it('take no condition that nobody would check', async () => {
    const { deadLetters, asked } = recording();
    const api = await apiOver(deadLetters);
    const request = { ...post('/drop', { ids: ['like-events@1'] }), headers: { 'if-match': '"1"' } };
    expect(problemName(await api.send(request))).to.equal('if-match-not-applicable');
    expect(asked).to.deep.equal([]);
  });
});
