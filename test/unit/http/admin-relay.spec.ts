import { expect } from 'chai';
import { OperatorError } from '../../../src/operator-error.ts';
import type { RelayAdmin } from '../../../src/relay-admin/relay-admin.ts';
import { recordingLog } from '../../support/silent-log.ts';
import { problemName, startTestApi, type TestApi, type TestRequest } from './api-server.ts';
import { goodRelay } from './good-relay.ts';

/** Relays that remember what they were told. */
const recordingRelay = () => {
  const asked: unknown[] = [];
  const relay: Partial<RelayAdmin> = {
    pause: (options) => {
      asked.push(['pause', options]);
      return goodRelay.pause(options);
    },
    resume: (options) => {
      asked.push(['resume', options]);
      return goodRelay.resume(options);
    },
    useWal: (options) => {
      asked.push(['use-wal', options]);
      return goodRelay.useWal(options);
    },
    resync: (fromId, options) => {
      asked.push(['resync', fromId, options]);
      return goodRelay.resync(fromId, options);
    },
    ghosts: (options) => {
      asked.push(['ghosts', options]);
      return goodRelay.ghosts(options);
    },
    dismissGhosts: (options) => {
      asked.push(['dismissGhosts', options]);
      return goodRelay.dismissGhosts(options);
    },
  };
  return { relay, asked };
};

describe('the relay over HTTP', () => {
  const { relay, asked } = recordingRelay();
  let api: TestApi;
  before(async () => {
    api = await startTestApi({ relay });
  });
  after(() => api.close());
  beforeEach(() => {
    asked.length = 0;
  });
  const post = (path: string, body?: unknown): TestRequest => ({
    method: 'POST',
    url: `/admin/relay/${path}`,
    as: 'operator',
    ...(body !== undefined && { body }),
  });

  it('tells how the relays are and why events are late, in words and in figures', async () => {
    const { statusCode, json } = await api.send({ method: 'GET', url: '/admin/relay', as: 'operator' });
    expect(statusCode).to.equal(200);
    expect(json).to.deep.include({
      pending: 3,
      pause: { by: 'operator:ann', since: '1970-01-01T00:00:01.000Z', because: 'broker upgrade' },
    });
    expect(json.late).to.deep.equal([
      {
        kind: 'paused',
        sentence: 'The relay is paused',
        remedy: 'Let it go on',
        details: { by: 'operator:ann', since: '1970-01-01T00:00:01.000Z', because: 'broker upgrade' },
      },
    ]);
    expect(json).to.have.nested.property('processes[0].troubles[0].error', 'refused');
  });

  it('is paused and goes on in the name of the caller', async () => {
    const who = 'operator:key';
    const { json } = await api.send(post('pause', { reason: 'broker upgrade' }));
    expect(json).to.have.nested.property('stillRelaying[0].until', '1970-01-01T00:00:03.000Z');
    await api.send(post('pause'));
    await api.send(post('resume'));
    const named = asked as [string, { who: string; because?: string | null }][];
    expect(named.map(([what, { because }]) => [what, because])).to.deep.equal([
      ['pause', 'broker upgrade'],
      ['pause', null],
      ['resume', undefined],
    ]);
    expect(new Set(named.map(([, options]) => options.who)).size).to.equal(1);
    expect(named[0]?.[1].who)
      .to.be.a('string')
      .and.match(new RegExp(`^${who.split(':')[0]}`));
  });

  it('only says what a resync would do unless it is told to do it', async () => {
    expect((await api.send(post('resync', { fromId: 7 }))).json).to.deep.equal({
      dryRun: true,
      fromId: 7,
      rows: 2,
      firstId: 7,
      lastId: 8,
    });
    await api.send(post('resync', { fromId: 7, dryRun: false }));
    expect(
      (asked as [string, number, { dryRun: boolean }][]).map(([, , { dryRun }]) => dryRun),
    ).to.deep.equal([true, false]);
  });

  it('says why events are too old to be published again', async () => {
    const other = await startTestApi({
      log: recordingLog().log,
      relay: {
        resync: async () => {
          throw new OperatorError('The oldest is 40 days old', { remedy: 'Use millrace rebuild' });
        },
      },
    });
    const refused = await other.send(post('resync', { fromId: 7 }));
    expect([refused.statusCode, problemName(refused)]).to.deep.equal([409, 'not-possible-now']);
    expect(refused.json.detail).to.equal('The oldest is 40 days old. Use millrace rebuild');
    await other.close();
  });

  it('divides the journal anew, and says when that does not go', async () => {
    const told: unknown[] = [];
    let refusal: Error | undefined;
    const other = await startTestApi({
      log: recordingLog().log,
      relay: {
        reshard: async (shards, options) => {
          told.push([shards, options.dryRun]);
          if (refusal) throw refusal;
          return goodRelay.reshard(shards, options);
        },
      },
    });
    const answer = await other.send(post('reshard', { shards: 4 }));
    expect(answer.json).to.include({ dryRun: true, from: 1, to: 4, repeated: 3 });
    await other.send(post('reshard', { shards: 4, dryRun: false }));
    expect(told).to.deep.equal([
      [4, true],
      [4, false],
    ]);
    refusal = new OperatorError('The relay reads the log', { remedy: 'Use the cursor' });
    const refused = await other.send(post('reshard', { shards: 4 }));
    expect(refused.statusCode).to.equal(409);
    expect(refused.json.detail).to.equal('The relay reads the log. Use the cursor');
    refusal = new Error('a bug');
    expect((await other.send(post('reshard', { shards: 4 }))).statusCode).to.equal(500);
    await other.close();
  });

  it('lists events that Kafka has and the journal has not, and tells their number with the status', async () => {
    const get = (url: string) => api.send({ method: 'GET', url, as: 'operator' });
    const { statusCode, json } = await get('/admin/relay/ghosts');
    expect(statusCode).to.equal(200);
    expect(json).to.include({ events: 1 });
    expect(json).to.have.nested.property('ghosts[0].recordedAt', '1970-01-01T00:00:03.000Z');
    expect(json).to.have.nested.property('ghosts[0].replacedBy', null);
    await get('/admin/relay/ghosts?limit=7');
    expect(asked).to.deep.equal([
      ['ghosts', { limit: 50 }],
      ['ghosts', { limit: 7 }],
    ]);
    for (const limit of ['0', '10001', 'all'])
      expect((await get(`/admin/relay/ghosts?limit=${limit}`)).statusCode, limit).to.equal(400);
    expect((await get('/admin/relay')).json).to.have.nested.property('ghosts.events', 1);
  });

  it('only says what dismissing ghosts would do unless it is told to do it', async () => {
    expect((await api.send(post('ghosts/dismiss', {}))).json).to.deep.equal({ dryRun: true, events: 1 });
    await api.send(post('ghosts/dismiss', { dryRun: false }));
    expect((asked as [string, { dryRun: boolean }][]).map(([, { dryRun }]) => dryRun)).to.deep.equal([
      true,
      false,
    ]);
  });

  it('returns to the write-ahead log in the name of the caller', async () => {
    const { statusCode, json } = await api.send(post('use-wal'));
    expect(statusCode).to.equal(200);
    expect(json).to.deep.equal({
      ended: { slot: 'millrace_relay', reason: 'it is gone', since: '1970-01-01T00:00:01.000Z' },
    });
    expect(asked).to.have.nested.property('[0][0]', 'use-wal');
    expect(asked)
      .to.have.nested.property('[0][1].who')
      .that.matches(/^operator/);
  });

  it('refuses what it cannot mean', async () => {
    for (const [path, body] of [
      ['resync', {}],
      ['resync', { fromId: 0 }],
      ['resync', { fromId: '7' }],
      ['resync', { fromId: 7, dryRun: 'no' }],
      ['reshard', { shards: 0 }],
      ['reshard', { shards: 65 }],
      ['pause', { reason: '' }],
      ['pause', { because: 'x' }],
      ['resume', { force: true }],
      ['ghosts/dismiss', { dryRun: 'no' }],
      ['use-wal', { force: true }],
    ] as const) {
      expect((await api.send(post(path, body))).statusCode, JSON.stringify(body)).to.equal(400);
    }
    const conditional = await api.send({ ...post('resume'), headers: { 'if-match': '"1"' } });
    expect(problemName(conditional)).to.equal('if-match-not-applicable');
    expect(asked).to.deep.equal([]);
  });

  it('is for operators only', async () => {
    for (const request of [
      post('pause'),
      post('resume'),
      post('use-wal'),
      post('resync', { fromId: 1 }),
      post('reshard', { shards: 1 }),
      post('ghosts/dismiss', {}),
      { method: 'GET', url: '/admin/relay/ghosts' } as const,
      { method: 'GET', url: '/admin/relay' } as const,
    ]) {
      expect((await api.send({ ...request, as: 'alice' })).statusCode).to.equal(403);
      const { as: _, ...anonymous } = { as: undefined, ...request };
      expect((await api.send(anonymous)).statusCode).to.equal(401);
    }
    expect(asked).to.deep.equal([]);
  });
});
