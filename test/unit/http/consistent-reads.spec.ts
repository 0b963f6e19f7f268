import { expect } from 'chai';
import type { ConsistencyQuestion } from '../../../src/consistency/consistency.ts';
import { writeConsistencyToken } from '../../../src/journal/consistency-token.ts';
import { startTestApi } from './api-server.ts';

const paid = {
  topic: 'order-events',
  eventId: '01890a5d-ac96-774b-bcce-b302099a8057',
  occurredAtMs: 1_700_000_000_000,
} as const;
const token = writeConsistencyToken([paid]);
const url = '/v1/products/p-1/statistic';

describe('queries with a consistency token', () => {
  it('wait for the models they read, as long as they prefer', async () => {
    const questions: ConsistencyQuestion[] = [];
    const api = await startTestApi({
      consistency: {
        waitFor: async (question) => {
          questions.push(question);
          return undefined;
        },
      },
    });
    const ask = (path: string, prefer?: string) =>
      api.send({
        method: 'GET',
        url: path,
        as: 'operator',
        headers: { 'consistency-token': token, ...(prefer !== undefined && { prefer }) },
      });
    await ask(url);
    await ask('/v1/products', 'return=minimal, wait=2');
    const long = await ask('/v1/trends', 'wait=1000');
    await ask('/v1/orders', 'wait=soon');
    expect(
      questions.map(({ models, waitMs, events }) => ({ models, waitMs, events: [...events] })),
    ).to.deep.equal([
      { models: ['product-statistic'], waitMs: 5000, events: [paid] },
      { models: ['product-statistic', 'stock-level'], waitMs: 2000, events: [paid] },
      { models: ['product-trend'], waitMs: 30_000, events: [paid] },
      { models: ['order-view'], waitMs: 5000, events: [paid] },
    ]);
    expect(long.headers['preference-applied']).to.equal('wait=30');
  });

  it('say plainly that the model is behind, and how far', async () => {
    const api = await startTestApi({
      consistency: {
        waitFor: async () => ({
          kind: 'not-caught-up' as const,
          model: 'product-statistic',
          awaited: 2,
          missing: 1,
          reachedAt: new Date('2026-01-02T03:04:05Z'),
          pausedSince: null,
        }),
      },
    });
    const answer = await api.send({
      method: 'GET',
      url,
      as: 'operator',
      headers: { 'consistency-token': token },
    });
    expect(answer.statusCode).to.equal(503);
    expect(answer.headers['retry-after']).to.equal('1');
    expect(JSON.parse(answer.body)).to.include({
      type: 'urn:millrace:problem:not-caught-up',
      model: 'product-statistic',
      awaited: 2,
      missing: 1,
      reachedAt: '2026-01-02T03:04:05.000Z',
      pausedSince: null,
    });
  });

  it('say that the model is paused, since when, and what there is to do', async () => {
    const api = await startTestApi({
      consistency: {
        waitFor: async () => ({
          kind: 'not-caught-up' as const,
          model: 'product-statistic',
          awaited: 1,
          missing: 1,
          reachedAt: null,
          pausedSince: new Date('2026-01-02T03:04:05Z'),
        }),
      },
    });
    const answer = await api.send({
      method: 'GET',
      url,
      as: 'operator',
      headers: { 'consistency-token': token, prefer: 'wait=1' },
    });
    expect(answer.statusCode).to.equal(503);
    expect(answer.json).to.include({
      type: 'urn:millrace:problem:not-caught-up',
      pausedSince: '2026-01-02T03:04:05.000Z',
      detail:
        'product-statistic is paused by an operator since 2026-01-02T03:04:05.000Z and has 0 of the 1 events after 1 s; until it is resumed, ask without the token for what there is',
    });
  });

  it('say that waiting is in vain where an event missed its window', async () => {
    const api = await startTestApi({
      consistency: {
        waitFor: async () => ({ kind: 'missed-window' as const, model: 'product-trend', missed: 1 }),
      },
    });
    const answer = await api.send({
      method: 'GET',
      url: '/v1/trends',
      as: 'operator',
      headers: { 'consistency-token': token },
    });
    expect(answer.statusCode).to.equal(412);
    expect(answer.headers).not.to.have.property('retry-after');
    expect(JSON.parse(answer.body)).to.include({
      type: 'urn:millrace:problem:missed-window',
      model: 'product-trend',
      missed: 1,
    });
  });

  it('refuse what is no token, and ask nobody without one', async () => {
    let asked = 0;
    const api = await startTestApi({
      consistency: {
        waitFor: async () => {
          asked++;
          return undefined;
        },
      },
    });
    const answer = await api.send({
      method: 'GET',
      url,
      as: 'operator',
      headers: { 'consistency-token': 'nonsense' },
    });
    expect(answer.statusCode).to.equal(400);
    expect(JSON.parse(answer.body).type).to.equal('urn:millrace:problem:consistency-token-invalid');
    expect((await api.send({ method: 'GET', url, as: 'operator' })).statusCode).to.equal(200);
    expect(asked).to.equal(0);
  });

  it('read a product afresh', async () => {
    const seen: unknown[] = [];
    const api = await startTestApi({
      queries: {
        getProduct: async (_id, options) => {
          seen.push(options);
          return null;
        },
      },
    });
    await api.send({
      method: 'GET',
      url: '/v1/products/p-1',
      as: 'operator',
      headers: { 'consistency-token': token },
    });
    expect(seen).to.deep.equal([{ afresh: true }]);
  });
});
