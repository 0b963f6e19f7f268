import { expect } from 'chai';
import { appendEvents } from '../../../src/journal/append-events.ts';
import type { Database, SqlRunner } from '../../../src/postgres/database.ts';
import { acquireLease } from '../../../src/relay/lease.ts';
import { tellThatRelayLives } from '../../../src/relay/live-relays.ts';
import { pauseRelay, resumeRelay } from '../../../src/relay/pause.ts';
import { refusalText } from '../../../src/relay/refusal.ts';
import { createConditionReport } from '../../../src/relay/relay-condition.ts';
import { mainRelayLease } from '../../../src/relay/shard.ts';
import { explainStall } from '../../../src/relay/stall/explain-stall.ts';
import { readStallFacts } from '../../../src/relay/stall/read-stall-facts.ts';
import type { StallReason } from '../../../src/relay/stall/stall-reason.ts';
import { storeFailedRows } from '../../../src/relay/store-failed-rows.ts';
import { eventually } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import { createMemoryBroker, useRelays } from '../../support/memory-broker.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { appendViews, park, passEverything } from '../../support/outbox-admin.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const settings = { stallAfterMs: 300, slotLagBytesMax: 1e12 };
type Kind = StallReason['kind'];

describe('why events are late, found in the database', () => {
  const workspace = useWorkspace();
  let db: Database;
  const relays = useRelays(() => db, silentLog());
  before(() => {
    db = openTestDatabase(workspace(), 12);
  });
  let aggregates = 0;
  const run = (text: string, values: readonly unknown[] = []) =>
    db.execute({ name: `spec-${text.slice(0, 55)}`, text }, values);

  beforeEach(async () => {
    await passEverything(db);
    for (const table of ['outbox_failed', 'scheduler_lock', 'relay_process'])
      await run(`delete from ${table}`);
    await run('update relay_sharding set shards = 1');
    await resumeRelay(db);
  });

  const appendOne = () => appendViews(db, `late-${++aggregates}`, { count: 1 });
  const explain = async () => explainStall(await readStallFacts(db, settings), settings);
  /** Once the events are old enough to be late, and everybody had time to wait. */
  const eventuallyExplained = <K extends Kind>(kind: K): Promise<Extract<StallReason, { kind: K }>> =>
    eventually(async () => {
      const reasons = await explain();
      expect(reasons.map((reason) => reason.kind)).to.deep.equal([kind]);
      return reasons[0] as Extract<StallReason, { kind: K }>;
    });
  const keyOfShard = async (shard: number): Promise<string> => {
    const [row] = await db.execute<{ key: string }>(
      {
        name: 'spec-key-of-shard',
        text: `select 'sharded-' || n as key from generate_series(1, 100) n where outbox_shard('sharded-' || n, 2) = $1`,
      },
      [shard],
    );
    return row?.key ?? '';
  };
  const alive = (name: string) => tellThatRelayLives(db, { name, aliveMs: 60_000 });
  const hold = (holder: string, name = mainRelayLease) => acquireLease(db, { name, holder, holdMs: 60_000 });

  it('is nothing while nothing waits, whoever is there', async () => {
    expect(await explain()).to.deep.equal([]);
    await alive('a');
    expect(await explain()).to.deep.equal([]);
  });

  it('is that nobody relays', async () => {
    await appendOne();
    await eventuallyExplained('no-relay');
  });

  it('is a pause', async () => {
    await pauseRelay(db, { by: 'ann', because: 'broker upgrade' });
    await appendOne();
    expect(await eventuallyExplained('paused')).to.include({ by: 'ann', because: 'broker upgrade' });
  });

  it('is a shard that nobody has', async () => {
    await run('update relay_sharding set shards = 2');
    await run(`
      insert into outbox_cursor (from_snapshot, to_snapshot, last_id, lease_token, system_identifier, shards, shard)
      select pg_current_snapshot(), pg_current_snapshot(), 0, 0, system_identifier, 2, shard
      from pg_control_system(), generate_series(1, 2) shard`);
    await alive('a');
    // The hash of the key decides which shard an event belongs to: the first has none of these.
    const key = await keyOfShard(2);
    await hold('a', 'outbox-relay-main/1-of-2');
    await appendViews(db, key, { count: 1 });
    expect(await eventuallyExplained('without-owner')).to.deep.equal({
      kind: 'without-owner',
      shards: [2],
      of: 2,
      relays: 1,
    });
  });

  it('is a holder of the lease from whom nothing is heard', async () => {
    await alive('a');
    await hold('a');
    await appendOne();
    expect(await eventuallyExplained('holder-silent')).to.include({ holder: 'a', lease: mainRelayLease });
  });

  it('is only much to do, while the relay gets further', async () => {
    await alive('a');
    await hold('a');
    await appendOne();
    await eventually(async () => {
      await run(`
        insert into outbox_cursor (from_snapshot, to_snapshot, last_id, lease_token, system_identifier)
        select from_snapshot, to_snapshot, last_id, 0, system_identifier from outbox_cursor
        where shards = 1 order by id desc limit 1`);
      const [reason] = await explain();
      expect(reason).to.include({ kind: 'behind', pending: 1 });
    });
  });

  it('is a position of another server', async () => {
    await appendOne();
    await run('update outbox_cursor set system_identifier = 1');
    await eventuallyExplained('foreign-cursor');
    await run(
      'update outbox_cursor set system_identifier = (select system_identifier from pg_control_system())',
    );
  });

  it('is an event in front of others', async () => {
    const [first, ...rest] = await appendViews(db, `parked-${++aggregates}`, { count: 3 });
    if (!first) throw new Error('no rows');
    await park(db, [first, ...rest], { dead: true });
    await passEverything(db);
    const { events, aggregates: count, first: found } = await eventuallyExplained('parked');
    expect({ events, count }).to.deep.equal({ events: 3, count: 1 });
    expect(found).to.deep.equal({
      id: first.id,
      aggregateType: 'ProductView',
      aggregateId: first.aggregateId,
      dead: true,
      attempts: 0,
      lastError: 'message too large',
    });
  });

  it('is a topic that is missing and a schema that the registry refuses, beside an event that is too large', async () => {
    const schema = {
      kind: 'schema',
      eventType: 'loopers.a.v1',
      subject: 's-A',
      reasons: 'a (removed)\nb',
    } as const;
    const errors = [
      refusalText({ kind: 'topic', topic: 'x.stock-events', refusal: 'missing' }),
      refusalText({ kind: 'topic', topic: 'x.stock-events', refusal: 'missing' }),
      refusalText(schema),
      'message too large: Topic x does not exist',
    ];
    const rows = await Promise.all(
      errors.map(() => appendViews(db, `refused-${++aggregates}`, { count: 2 })),
    );
    for (const [index, [head, follower]] of rows.entries()) {
      if (!head || !follower) throw new Error('no rows');
      const error = errors[index] ?? '';
      await storeFailedRows(db, [
        { row: head, error, tried: true, dead: index === 1 },
        { row: follower, error: 'An earlier event of this aggregate has not arrived', tried: false },
      ]);
    }
    await passEverything(db);
    await eventually(async () => {
      const [topic, refused, parked, ...rest] = await explain();
      expect(topic).to.deep.equal({
        kind: 'topic-refused',
        topic: 'x.stock-events',
        refusal: 'missing',
        events: 4,
        aggregates: 2,
        dead: 1,
      });
      expect(refused).to.deep.equal({ ...schema, kind: 'schema-refused', events: 2, aggregates: 1, dead: 0 });
      expect(parked).to.deep.include({ kind: 'parked', events: 2, aggregates: 1 });
      expect(rest).to.deep.equal([]);
    });
  });

  describe('told by a relay', () => {
    const reportOf = (name: string) =>
      createConditionReport({ database: db, name, clock: () => new Date(), log: silentLog() });

    it('is the circuit that it has open, with what it last met', async () => {
      await alive('a');
      await hold('a');
      const report = reportOf('a');
      const refused = new Error('BROKER_UNAVAILABLE', { cause: new Error('connect ECONNREFUSED') });
      report.troubleChanged(mainRelayLease, refused);
      report.circuitChanged('open');
      await appendOne();
      const { relay, lastError, since } = await eventuallyExplained('circuit-open');
      expect({ relay, lastError }).to.deep.equal({
        relay: 'a',
        lastError: 'BROKER_UNAVAILABLE: connect ECONNREFUSED',
      });
      // A trial that fails is the same trouble as before.
      report.circuitChanged('half-open');
      report.circuitChanged('open');
      expect((await eventuallyExplained('circuit-open')).since).to.deep.equal(since);
      report.circuitChanged('closed');
      expect(await eventuallyExplained('relay-trouble')).to.include({ relay: 'a', lease: mainRelayLease });
      report.troubleChanged(mainRelayLease, null);
      await eventuallyExplained('holder-silent');
      await report.stop();
    });

    it('is what keeps it from taking its share at all', async () => {
      const report = reportOf('b');
      report.troubleChanged('shards', new Error('wal_level is replica'));
      await appendOne();
      expect(await eventuallyExplained('relay-trouble')).to.include({ relay: 'b', lease: 'shards' });
      await report.stop();
    });

    it('is written when it changes, also when the database did not take it at first', async () => {
      let writes = 0;
      let isDown = true;
      const flaky: Database = {
        ...db,
        execute: (statement, values) => {
          writes++;
          return isDown ? Promise.reject(new Error('down')) : db.execute(statement, values);
        },
      };
      const report = createConditionReport({
        database: flaky,
        name: 'c',
        clock: () => new Date(),
        log: silentLog(),
      });
      report.circuitChanged('open');
      await eventually(() => expect(writes).to.equal(1));
      isDown = false;
      const read = async () =>
        (await db.execute<{ circuit: string; troubles: unknown[] }>({
          name: 'spec-condition',
          text: `select circuit, troubles from relay_process where name = 'c'`,
        })) as { circuit: string; troubles: unknown[] }[];
      await eventually(async () => expect((await read())[0]?.circuit).to.equal('open'));
      const before = writes;
      for (let turn = 0; turn < 5; turn++) report.troubleChanged('l', null);
      await report.stop();
      expect(writes).to.equal(before);
    });
  });

  describe('held up by a transaction', () => {
    /** A transaction that stays open until it is told to end. */
    const openTransaction = async (begin: (tx: SqlRunner) => Promise<unknown>) => {
      let end: () => void = () => {};
      const ended = new Promise<void>((resolve) => {
        end = resolve;
      });
      let pid = 0;
      let begun: () => void = () => {};
      const hasBegun = new Promise<void>((resolve) => {
        begun = resolve;
      });
      const finished = db.transaction(async (tx) => {
        const [row] = await tx.execute<{ pid: number }>({
          name: 'spec-pid',
          text: 'select pg_backend_pid() as pid',
        });
        pid = row?.pid ?? 0;
        await begin(tx);
        begun();
        await ended;
      });
      await Promise.race([hasBegun, finished]);
      return {
        pid,
        end: async () => {
          end();
          await finished;
        },
      };
    };

    it('is one that wrote events, before anybody can see them', async () => {
      const open = await openTransaction((tx) => appendEvents(tx, [viewOf(`slow-${++aggregates}`, 1)]));
      const { effect, session } = await eventuallyExplained('long-transaction');
      expect(effect).to.equal('its-events-wait');
      expect(session).to.include({
        pid: open.pid,
        application: 'millrace-spec',
        state: 'idle in transaction',
      });
      expect(session.query).to.match(/insert into outbox/i);
      expect(session.transactionSince).to.be.a('date');
      await open.end();
    });

    it('is not one that only reads, however long', async () => {
      const open = await openTransaction((tx) =>
        tx.execute({ name: 'spec-reader', text: 'select count(*), pg_current_xact_id() from outbox' }),
      );
      const since = Date.now();
      await eventually(() => expect(Date.now() - since).to.be.greaterThan(2 * settings.stallAfterMs));
      expect(await explain()).to.deep.equal([]);
      await open.end();
    });

    it('is one that keeps the relay waiting for a lock', async () => {
      const open = await openTransaction((tx) =>
        tx.execute({ name: 'spec-lock', text: 'lock table outbox_failed in access exclusive mode' }),
      );
      const broker = createMemoryBroker();
      relays.startMain('a', broker);
      await appendOne();
      const { effect, session } = await eventuallyExplained('long-transaction');
      expect(effect).to.equal('relay-waits-for-lock');
      expect(session).to.include({ pid: open.pid, state: 'idle in transaction' });
      expect(session.query).to.match(/^lock table outbox_failed/);
      await open.end();
      await eventually(() => expect(broker.keys).to.have.length(1));
    });
  });
});
