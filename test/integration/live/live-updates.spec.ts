import { expect } from 'chai';
import type { Listener } from '../../../src/live/live-client.ts';
import { createLiveUpdates, type LiveSettings, type LiveUpdates } from '../../../src/live/live-updates.ts';
import type { LivePosition } from '../../../src/live/position.ts';
import { readChanges, readPositionNow } from '../../../src/live/read-changes.ts';
import type { Database, SqlRunner } from '../../../src/postgres/database.ts';
import { tellReplaced } from '../../../src/streams-postgres/builds/tell-replaced.ts';
import { forgetChanges } from '../../../src/streams-postgres/upkeep/forget-changes.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const settings: LiveSettings = {
  intervalMs: 1,
  pollIntervalMs: 10,
  heartbeatMs: 600_000,
  clientsMax: 5,
  clientsPerCallerMax: 3,
  bufferBytesMax: 1024 * 1024,
  sessionMsMax: 600_000,
};

describe('live updates', function () {
  this.timeout(120_000);
  const workspace = useWorkspace();
  let db: Database;
  const opened: LiveUpdates[] = [];
  before(() => {
    db = openTestDatabase(workspace(), 8);
  });
  afterEach(async () => {
    for (const live of opened.splice(0)) await live.close();
  });

  let statements = 0;
  const run = (text: string, values: readonly unknown[] = [], on: SqlRunner = db) =>
    on.execute<Record<string, unknown>>({ name: `spec-live-${++statements}`, text }, values);
  /** What a projector does in one batch. */
  const view = async (productId: string, on: SqlRunner = db): Promise<void> => {
    await run(
      `insert into product_statistic as s (product_id, view_count) values ($1, 1)
       on conflict (product_id) do update set view_count = s.view_count + 1`,
      [productId],
      on,
    );
    await run(
      `insert into model_change (model, keys) values ('product_statistic', array[$1])`,
      [productId],
      on,
    );
  };
  const placeOrder = async (orderId: string, userId: string): Promise<void> => {
    await run(
      `insert into order_view values ($1, $2, 'created', '[]', 5, 'EUR', null, 1, now(), now(), '[]')`,
      [orderId, userId],
    );
    await run(`insert into model_change (model, keys) values ('order_view', array[$1])`, [orderId]);
  };

  const openLive = (over: Partial<LiveSettings> = {}): LiveUpdates => {
    const live = createLiveUpdates({
      database: db,
      listen: () => ({ stop: async () => {} }),
      settings: { ...settings, ...over },
      observer: { clients: () => {}, told: () => {}, joined: () => {}, ended: () => {} },
      log: silentLog(),
    });
    opened.push(live);
    return live;
  };
  const join = (live: LiveUpdates, over: Partial<Listener> = {}) => {
    const subscription = live.subscribe({
      identity: 'spec',
      userId: undefined,
      kinds: new Set(['statistics', 'orders']),
      lastEventId: undefined,
      ...over,
    });
    if (subscription.kind === 'refused') throw new Error(subscription.reason);
    const heard = { text: '', hasEnded: false };
    subscription.stream.setEncoding('utf8');
    subscription.stream.on('data', (chunk: string) => {
      heard.text += chunk;
    });
    subscription.stream.once('end', () => {
      heard.hasEnded = true;
    });
    const lastId = (): string => [...heard.text.matchAll(/^id: (.*)$/gm)].at(-1)?.[1] ?? '';
    const hears = (what: string | RegExp) =>
      eventually(() => expect(heard.text).to.match(typeof what === 'string' ? new RegExp(what) : what), {
        timeoutMs: 30_000,
      });
    return { heard, lastId, hears, leave: () => subscription.stream.destroy() };
  };
  const viewCounts = (text: string, productId: string): readonly number[] =>
    [...text.matchAll(new RegExp(`"productId":"${productId}".*?"viewCount":(\\d+)`, 'g'))].map(([, count]) =>
      Number(count),
    );

  it('tell what changed since a client came, and to each what it may hear', async () => {
    const live = openLive();
    const [operator, ann] = [join(live), join(live, { userId: 'ann' })];
    await operator.hears('event: ready');
    await ann.hears('event: ready');
    await view('mill');
    await placeOrder('o-ann', 'ann');
    await placeOrder('o-bob', 'bob');
    await view('sieve');
    for (const { hears } of [operator, ann]) {
      await hears('event: product-statistic\ndata: {"productId":"mill"');
      await hears('event: order\ndata: {"orderId":"o-ann"');
      await hears('"productId":"sieve"');
    }
    await operator.hears('"orderId":"o-bob"');
    expect(ann.heard.text).not.to.include('o-bob');
  });

  it('tell those whom it concerns that another build of a model is live, also who was away then', async () => {
    const live = openLive();
    const [both, orders] = [join(live), join(live, { kinds: new Set(['orders']) })];
    for (const { hears } of [both, orders]) await hears('event: ready');
    const before = both.lastId();
    await db.transaction(async (tx) => {
      await tellReplaced(tx, ['product_statistic', 'product_trend']);
      await view('after-the-swap', tx);
    });
    await both.hears(
      /event: reset\ndata: \{"reason":"model-replaced","kinds":\["statistics"\]\}[\s\S]*after-the-swap/,
    );
    await eventually(() => expect(both.lastId()).not.to.equal(before));
    const back = join(openLive(), { lastEventId: before, identity: 'another' });
    await back.hears(
      /event: reset\n[\s\S]*"kinds":\["statistics"\][\s\S]*event: ready\ndata: \{"resumed":true\}/,
    );
    const later = join(openLive(), { lastEventId: both.lastId(), identity: 'another' });
    await later.hears('event: ready');
    await placeOrder('o-after', 'ann');
    await orders.hears('o-after');
    for (const { heard } of [later, orders]) expect(heard.text).not.to.include('event: reset');
  });

  it('lose nothing whatever commits in whatever order, with clients that come and go all the time', async () => {
    const live = openLive();
    const [steady, wanderer] = [join(live), { texts: '', id: '' }];
    await steady.hears('event: ready');
    const first = join(live);
    await first.hears('event: ready');
    wanderer.id = first.lastId();
    first.leave();

    let isWriting = true;
    const wander = async (): Promise<void> => {
      for (let turn = 0; isWriting || turn < 3; turn++) {
        const client = join(live, { lastEventId: wanderer.id });
        await client.hears('event: ready\ndata: {"resumed":true}');
        wanderer.id = client.lastId();
        wanderer.texts += client.heard.text;
        client.leave();
      }
    };
    // Transactions overlap: some take their number early and commit late, some are undone.
    const write = async (writer: number): Promise<void> => {
      for (let turn = 0; turn < 15; turn++) {
        await db
          .transaction(async (tx) => {
            await view(`w-${writer}-${turn}`, tx);
            await new Promise((resolve) => setTimeout(resolve, (writer * 7 + turn * 3) % 20));
            if (turn % 5 === 4) throw new Error('undone');
          })
          .catch(() => undefined);
      }
    };
    const wandering = wander();
    await Promise.all(Array.from({ length: 5 }, (_, writer) => write(writer)));
    isWriting = false;
    await wandering;
    const last = join(live, { lastEventId: wanderer.id });
    await last.hears('event: ready');
    wanderer.texts += last.heard.text;

    for (let writer = 0; writer < 5; writer++) {
      for (let turn = 0; turn < 15; turn++) {
        const productId = `w-${writer}-${turn}`;
        const expected = turn % 5 === 4 ? 0 : 1;
        await eventually(() =>
          expect(Math.min(1, viewCounts(steady.heard.text, productId).length), productId).to.equal(expected),
        );
        expect(Math.min(1, viewCounts(wanderer.texts, productId).length), productId).to.equal(expected);
      }
    }
  });

  it('resume in another process, with the last of what was missed', async () => {
    const [one, other] = [openLive(), openLive()];
    const before = join(one);
    await before.hears('event: ready');
    before.leave();
    for (let views = 0; views < 3; views++) await view('resumed');
    await view('another');
    const after = join(other, { lastEventId: before.lastId() });
    await after.hears('event: ready\ndata: {"resumed":true}');
    expect(viewCounts(after.heard.text, 'resumed')).to.deep.equal([3]);
    expect(viewCounts(after.heard.text, 'another')).to.deep.equal([1]);
    expect(after.heard.text.indexOf('"resumed":true')).to.be.greaterThan(
      after.heard.text.indexOf('"another"'),
    );
    await view('resumed');
    await eventually(() => expect(viewCounts(after.heard.text, 'resumed')).to.include(4));
  });

  it('say that they cannot resume where changes are dropped, the database is another, or nobody wrote the id', async () => {
    const live = openLive();
    const before = join(live);
    await before.hears('event: ready');
    before.leave();
    const early = before.lastId();
    await view('dropped');
    const [system = ''] = early.split('-');
    expect(await forgetChanges(db, 0)).to.be.greaterThan(0);
    for (const [lastEventId, reason] of [
      [early, 'too-old'],
      [early.replace(system, '1'), 'unknown-position'],
      [`${system}-${10n ** 17n}:${10n ** 17n}:`, 'unknown-position'],
      ['made-up', 'unknown-position'],
    ] as const) {
      const client = join(live, { lastEventId });
      await client.hears(`event: reset\ndata: {"reason":"${reason}"}`);
      await view('told-after-reset');
      await client.hears('"told-after-reset"');
      client.leave();
    }
  });

  it('say so where one has missed too much, and still tell everybody of ever so many changes', async () => {
    const live = openLive();
    const [here, away] = [join(live), join(live)];
    await here.hears('event: ready');
    await away.hears('event: ready');
    away.leave();
    await run(
      `insert into product_statistic (product_id) select 'many-' || n from generate_series(1, 6000) n`,
    );
    await run(
      `insert into model_change (model, keys) select 'product_statistic', array_agg('many-' || n) from generate_series(1, 6000) n`,
    );
    const back = join(live, { lastEventId: away.lastId() });
    await back.hears('event: reset\ndata: {"reason":"too-much"}');
    await eventually(() => expect(here.heard.text.match(/"productId":"many-/g)).to.have.length(6000), {
      timeoutMs: 30_000,
    });
  });

  it('look at the database once for all, and not at all without clients', async () => {
    let looks = 0;
    const counting: SqlRunner = {
      execute: (statement, values) => {
        looks++;
        return db.execute(statement, values);
      },
      checked: (routine) => db.checked(routine),
    };
    const live = createLiveUpdates({
      database: counting,
      listen: () => ({ stop: async () => {} }),
      settings: { ...settings, pollIntervalMs: 50, clientsMax: 300, clientsPerCallerMax: 300 },
      observer: { clients: () => {}, told: () => {}, joined: () => {}, ended: () => {} },
      log: silentLog(),
    });
    opened.push(live);
    const clients = Array.from({ length: 200 }, () => join(live));
    for (const { hears } of clients) await hears('event: ready');
    const before = looks;
    await view('for-all');
    for (const { hears } of clients) await hears('"for-all"');
    expect(looks - before).to.be.lessThan(clients.length);
    for (const { leave } of clients) leave();
    await eventually(async () => {
      const idle = looks;
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect(looks).to.equal(idle);
    });
  });

  it('have room for so many, of one caller and at all, and for others when those have left', async () => {
    const live = openLive();
    const clients = [join(live), join(live), join(live)];
    expect(() => join(live)).to.throw('caller-full');
    const others = [join(live, { identity: 'b' }), join(live, { identity: 'c' })];
    expect(() => join(live, { identity: 'd' })).to.throw('process-full');
    clients[0]?.leave();
    await eventually(() => others.push(join(live, { identity: 'd' })));
    expect(others).to.have.length(3);
  });

  it('end with a reason when time is up, and when the process stops', async () => {
    const brief = join(openLive({ sessionMsMax: 20 }));
    await brief.hears('event: closed\ndata: {"reason":"time-is-up"}');
    const live = openLive();
    const client = join(live);
    await client.hears('event: ready');
    await live.close();
    await client.hears('event: closed\ndata: {"reason":"shutting-down"}');
    await eventually(() => expect(client.heard.hasEnded).to.equal(true));
    expect(() => join(live)).to.throw('process-full');
  });

  it('give signs of life, and how far one has heard with them', async () => {
    const live = openLive({ heartbeatMs: 10 });
    const shopper = join(live, { userId: 'nobody', kinds: new Set(['orders']) });
    await shopper.hears('event: ready');
    const early = shopper.lastId();
    await view('unheard');
    await eventually(() => expect(shopper.lastId()).not.to.equal(early));
    expect(shopper.heard.text).not.to.include('unheard');
  });

  it('go on when the database was away', async () => {
    let isAway = false;
    const flaky: SqlRunner = {
      execute: (statement, values) =>
        isAway ? Promise.reject(new Error('away')) : db.execute(statement, values),
      checked: (routine) => (isAway ? Promise.reject(new Error('away')) : db.checked(routine)),
    };
    const live = createLiveUpdates({
      database: flaky,
      listen: () => ({ stop: async () => {} }),
      settings,
      observer: { clients: () => {}, told: () => {}, joined: () => {}, ended: () => {} },
      log: silentLog(),
    });
    opened.push(live);
    const client = join(live);
    await client.hears('event: ready');
    isAway = true;
    await view('while-away');
    isAway = false;
    await client.hears('"while-away"');
  });
});

describe('changes since a position', () => {
  const workspace = useWorkspace();
  let db: Database;
  before(() => {
    db = openTestDatabase(workspace(), 4);
  });
  const tell = (on: SqlRunner, key: string) =>
    on.execute(
      { name: 'spec-tell', text: `insert into model_change (model, keys) values ('m', array[$1])` },
      [key],
    );
  const keysSince = async (from: LivePosition): Promise<readonly string[]> => {
    const changes = await readChanges(db, from);
    if (changes.kind === 'lost') throw new Error(changes.reason);
    return changes.keys.m?.toSorted() ?? [];
  };

  it('hold what was under way then and is committed now, and what is dropped only where it matters', async () => {
    const begin = async (key: string) => {
      const hold = Promise.withResolvers<void>();
      const told = Promise.withResolvers<void>();
      const done = db.transaction(async (tx) => {
        await tell(tx, key);
        told.resolve();
        await hold.promise;
      });
      await told.promise;
      return async () => {
        hold.resolve();
        await done;
      };
    };
    const commitSlow = await begin('slow');
    await tell(db, 'quick');
    const between = await readPositionNow(db);
    expect(await keysSince(between)).to.deep.equal([]);
    await tell(db, 'later');
    await commitSlow();
    expect(await keysSince(between)).to.deep.equal(['later', 'slow']);

    // Dropped, but all of it was seen before: nothing is lost for who comes from here.
    const seen = await readPositionNow(db);
    const commitOther = await begin('other');
    const duringOther = await readPositionNow(db);
    await forgetChanges(db, 0);
    expect(await keysSince(seen)).to.deep.equal([]);
    expect(await keysSince(duringOther)).to.deep.equal([]);
    await commitOther();
    expect(await keysSince(duringOther)).to.deep.equal(['other']);
    await forgetChanges(db, 0);
    const lost = await Promise.all([seen, duringOther].map((from) => readChanges(db, from)));
    expect(lost.map(({ kind }) => kind)).to.deep.equal(['lost', 'lost']);
  });
});
