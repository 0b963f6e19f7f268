import { expect } from 'chai';
import type { Listener } from '../../../src/live/live-client.ts';
import { problemName, startTestApi, type TestApi, type Who } from './api-server.ts';
import { goodLive } from './good-live.ts';

describe('the stream of events', () => {
  const listeners: Listener[] = [];
  let refusal: 'process-full' | 'caller-full' | undefined;
  let closed = 0;
  let api: TestApi;
  before(async () => {
    api = await startTestApi({
      live: {
        subscribe: (listener) => {
          listeners.push(listener);
          return refusal ? { kind: 'refused', reason: refusal } : goodLive.subscribe(listener);
        },
        close: async () => {
          closed++;
        },
      },
    });
  });
  const open = (query = '', as: Who = 'alice', headers: Record<string, string> = {}) =>
    api.send({ method: 'GET', url: `/events${query}`, as, headers });

  it('is one of server-sent events, kept by nobody on the way', async () => {
    const { statusCode, headers, body } = await open();
    expect(statusCode).to.equal(200);
    expect(headers).to.include({ 'cache-control': 'no-store', 'x-accel-buffering': 'no' });
    expect(headers['content-type']).to.match(/^text\/event-stream/);
    expect(body).to.equal('event: ready\ndata: {"resumed":false}\n\n');
  });

  it('is for a shopper about its own, for an operator about everything, and of what was asked for', async () => {
    await open();
    expect(listeners.at(-1)).to.deep.include({ userId: 'alice', lastEventId: undefined });
    expect([...(listeners.at(-1)?.kinds ?? [])]).to.deep.equal(['statistics', 'orders']);
    await open('?kind=orders', 'operator', { 'last-event-id': '1-2:3:' });
    expect(listeners.at(-1)).to.deep.include({ userId: undefined, lastEventId: '1-2:3:' });
    expect([...(listeners.at(-1)?.kinds ?? [])]).to.deep.equal(['orders']);
    expect(problemName(await open('?kind=payments'))).to.equal('invalid-request');
    expect((await api.send({ method: 'GET', url: '/events' })).statusCode).to.equal(401);
    expect((await api.send({ method: 'HEAD', url: '/events', as: 'alice' })).statusCode).to.equal(405);
  });

  it('is refused with a problem when there are too many', async () => {
    refusal = 'caller-full';
    const tooMany = await open();
    expect([tooMany.statusCode, problemName(tooMany)]).to.deep.equal([429, 'too-many-streams']);
    refusal = 'process-full';
    const full = await open();
    expect([full.statusCode, problemName(full)]).to.deep.equal([503, 'streams-full']);
    expect(full.headers['retry-after']).to.equal('1');
  });

  it('ends when the server stops', async () => {
    await api.close();
    expect(closed).to.equal(1);
  });
});
