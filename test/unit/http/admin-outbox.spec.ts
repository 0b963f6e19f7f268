import { expect } from 'chai';
import type { OutboxAdmin } from '../../../src/outbox-admin/outbox-admin.ts';
import { problemName, startTestApi, type TestApi, type TestRequest } from './api-server.ts';
import { deadEvent, goodOutbox } from './good-outbox.ts';

/** An outbox that remembers what it was asked. */
const recordingOutbox = () => {
  const asked: unknown[] = [];
  const outbox: Partial<OutboxAdmin> = {
    failed: (filter) => {
      asked.push(filter);
      return goodOutbox.failed(filter);
    },
    show: (ref) => {
      asked.push(ref);
      return goodOutbox.show(ref);
    },
    retry: (selection, options) => {
      asked.push([selection, options]);
      return goodOutbox.retry(selection, options);
    },
    drop: (ref, options) => {
      asked.push([ref, options]);
      return goodOutbox.drop(ref, options);
    },
  };
  return { outbox, asked };
};

describe('the outbox over HTTP', () => {
  const apis: TestApi[] = [];
  afterEach(async () => {
    for (const api of apis.splice(0)) await api.close();
  });
  const apiOver = async (outbox: Partial<OutboxAdmin>): Promise<TestApi> => {
    const api = await startTestApi({ outbox });
    apis.push(api);
    return api;
  };
  const get = (url: string): TestRequest => ({ method: 'GET', url, as: 'operator' });
  const post = (url: string, body: unknown): TestRequest => ({ method: 'POST', url, body, as: 'operator' });

  it('lists with filters, and with fifty when not told how many', async () => {
    const { outbox, asked } = recordingOutbox();
    const api = await apiOver(outbox);
    const { json } = await api.send(get('/admin/outbox/failed?aggregate=Order/o/1&type=a.b.v1&limit=10000'));
    expect(json.events).to.have.nested.property('[0].nextRetryAt', '1970-01-01T00:00:02.000Z');
    await api.send(get('/admin/outbox/failed'));
    const aggregate = { aggregateType: 'Order', aggregateId: 'o/1' };
    expect(asked).to.deep.equal([
      { aggregate, eventType: 'a.b.v1', limit: 10_000 },
      { aggregate: undefined, eventType: undefined, limit: 50 },
    ]);
    for (const query of ['limit=0', 'limit=10001', 'limit=x', 'aggregate=Order', 'unknown=1']) {
      expect((await api.send(get(`/admin/outbox/dead?${query}`))).statusCode, query).to.equal(400);
    }
  });

  it('shows an event by either of its ids', async () => {
    const { outbox, asked } = recordingOutbox();
    const api = await apiOver(outbox);
    const { json } = await api.send(get('/admin/outbox/7'));
    expect(json).to.deep.include({ id: 7, state: 'dead', envelope: { unreadable: 'not in this spec' } });
    await api.send(get(`/admin/outbox/${deadEvent.eventId}`));
    expect(asked).to.deep.equal([{ outboxId: 7 }, { eventId: deadEvent.eventId }]);
    const empty = await apiOver({ show: async () => undefined });
    const unknown = await empty.send(get('/admin/outbox/8'));
    expect([unknown.statusCode, problemName(unknown)]).to.deep.equal([404, 'outbox-event-unknown']);
  });

  it('retries what is selected in the name of the caller, and nothing without a selection', async () => {
    const { outbox, asked } = recordingOutbox();
    const api = await apiOver(outbox);
    expect((await api.send(post('/admin/outbox/retry', {}))).statusCode).to.equal(400);
    expect((await api.send(post('/admin/outbox/retry', { all: false }))).statusCode).to.equal(400);
    expect((await api.send(post('/admin/outbox/retry', { all: true, id: '1' }))).statusCode).to.equal(400);
    expect(asked).to.deep.equal([]);
    const { json } = await api.send(post('/admin/outbox/retry', { all: true }));
    expect(json).to.deep.equal({ dryRun: false, events: 2, aggregates: 1, revived: 1 });
    await api.send(post('/admin/outbox/retry', { aggregate: 'Order/o-1', dryRun: true }));
    await api.send(post('/admin/outbox/retry', { id: '7' }));
    const [all, aggregate, event] = asked as [unknown, { who: string; dryRun: boolean }][];
    expect(all?.[0]).to.equal('all');
    expect(all?.[1].who).to.match(/^operator:/);
    expect(aggregate).to.deep.include({ aggregate: { aggregateType: 'Order', aggregateId: 'o-1' } });
    expect(aggregate?.[1].dryRun).to.equal(true);
    expect(event).to.deep.include({ event: { outboxId: 7 } });
  });

  it('drops only when told that it is no dry run', async () => {
    const { outbox, asked } = recordingOutbox();
    const api = await apiOver(outbox);
    expect((await api.send(post('/admin/outbox/drop', { id: '7' }))).json.outcome).to.equal('would-drop');
    const { json } = await api.send(post('/admin/outbox/drop', { id: '7', dryRun: false }));
    expect(json).to.deep.include({ outcome: 'dropped', warning: 'Consumers will miss it' });
    expect(asked).to.have.length(2);
  });

  it('says why an event cannot be dropped', async () => {
    const waiting = await apiOver({
      drop: async () => ({ outcome: 'waits-behind', event: deadEvent, firstId: 3 }),
    });
    const answer = await waiting.send(post('/admin/outbox/drop', { id: '7', dryRun: false }));
    expect(answer.json).to.include({ status: 409, firstId: 3 });
    const busy = await apiOver({ drop: async () => ({ outcome: 'being-retried', event: deadEvent }) });
    const tryAgain = await busy.send(post('/admin/outbox/drop', { id: '7', dryRun: false }));
    expect([tryAgain.statusCode, problemName(tryAgain)]).to.deep.equal([409, 'outbox-event-being-retried']);
    const gone = await apiOver({ drop: async () => ({ outcome: 'not-held' }) });
    const notHeld = await gone.send(post('/admin/outbox/drop', { id: '7', dryRun: false }));
    expect([notHeld.statusCode, problemName(notHeld)]).to.deep.equal([404, 'outbox-event-not-held']);
  });

  it('does not take a condition that it would not check', async () => {
    const { outbox, asked } = recordingOutbox();
    const api = await apiOver(outbox);
    const request = { ...post('/admin/outbox/retry', { all: true }), headers: { 'if-match': '"1"' } };
    expect(problemName(await api.send(request))).to.equal('if-match-not-applicable');
    expect(asked).to.deep.equal([]);
  });
});
