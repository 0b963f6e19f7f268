import { expect } from 'chai';
import { appendEvents } from '../../../src/journal/append-events.ts';
import { OperatorError } from '../../../src/operator-error.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { retryRelayLease } from '../../../src/relay/retry-relay.ts';
import { createRelayAdmin, type RelayAdmin } from '../../../src/relay-admin/relay-admin.ts';
import { eventually } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import { createMemoryBroker, useRelays } from '../../support/memory-broker.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { appendViews, auditRows, clearHeldEvents, park } from '../../support/outbox-admin.ts';
import { recordingLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const who = 'cli:ann@host';

describe('pausing the relay', () => {
  const workspace = useWorkspace();
  const { log, lines } = recordingLog();
  let db: Database;
  let admin: RelayAdmin;
  const relays = useRelays(() => db, log);
  before(() => {
    db = openTestDatabase(workspace(), 6);
    admin = createRelayAdmin(db, {
      stallAfterMs: 5000,
      slotLagBytesMax: 1e9,
      handledRetentionMs: 7 * 86_400_000,
    });
  });
  beforeEach(async () => {
    lines.length = 0;
    await admin.resume({ who: 'spec' });
    await clearHeldEvents(db);
  });
  const append = (...keys: readonly string[]) =>
    appendEvents(
      db,
      keys.map((key) => viewOf(key, 1)),
    );
  /** Of relays that start while it counts. */
  const countLeaseRequests = () => {
    const counts = new Map<unknown, number>();
    const counted = db;
    db = {
      ...counted,
      execute: (statement, values) => {
        if (statement.name === 'acquire-lease') counts.set(values?.[1], (counts.get(values?.[1]) ?? 0) + 1);
        return counted.execute(statement, values);
      },
    };
    return {
      by: (holder: string): number => counts.get(holder) ?? 0,
      stopCounting: () => {
        db = counted;
      },
    };
  };
  const nobodyRelays = () =>
    eventually(async () => expect(await admin.relaying()).to.deep.equal([]), { timeoutMs: 30_000 });

  it('stops it after its page, loses nothing, and lets it go on at once', async () => {
    const broker = createMemoryBroker();
    relays.startMain('a', broker);
    await append('p1');
    await eventually(() => expect(broker.keys).to.deep.equal(['p1']));

    const report = await admin.pause({ who, because: 'broker upgrade' });
    expect(report).to.include({ changed: true });
    expect(report.pause).to.include({ by: who, because: 'broker upgrade' });
    expect(report.stillRelaying.map(({ holder }) => holder)).to.deep.equal(['a']);
    relays.reconsider();
    await nobodyRelays();
    await eventually(async () => {
      const [lease] = await db.execute<{ isGivenBack: boolean }>({
        name: 'spec-given-back',
        text: `select locked_until = '-infinity' as "isGivenBack" from scheduler_lock`,
      });
      expect(lease?.isGivenBack, 'given back, not run out').to.equal(true);
    });
    await append('p2', 'p3');
    expect((await admin.status()).pending).to.equal(2);

    const { ended } = await admin.resume({ who });
    expect(ended).to.include({ by: who, because: 'broker upgrade' });
    relays.reconsider();
    await eventually(() => expect(broker.keys).to.deep.equal(['p1', 'p2', 'p3']));
    const said = lines.filter(({ level }) => level >= 40).map(({ msg }) => msg);
    expect(said).to.deep.equal([
      'The relay is paused: events wait until somebody lets it go on',
      'The relay goes on after its pause',
    ]);
  });

  it('is found out by a relay that did not hear of it, when it renews its lease', async () => {
    const broker = createMemoryBroker();
    relays.startMain('a', broker);
    await append('q1');
    await eventually(() => expect(broker.keys).to.include('q1'));
    await admin.pause({ who, because: null });
    await nobodyRelays();
  });

  it('holds for a relay that starts later, for one that stood by, and for the one that retries', async () => {
    await park(db, await appendViews(db, 'parked', { count: 1 }), { dead: false });
    await admin.pause({ who, because: null });
    const broker = createMemoryBroker();
    const asked = countLeaseRequests();
    relays.startMain('a', broker);
    relays.startMain('b', broker);
    relays.startRetry('c', broker);
    asked.stopCounting();
    await append('r1');
    await eventually(() => expect(['a', 'b', 'c'].every((holder) => asked.by(holder) > 1)).to.equal(true));
    expect(broker.keys).to.deep.equal([]);
    expect(await admin.relaying()).to.deep.equal([]);
    await admin.resume({ who });
    relays.reconsider();
    await eventually(() => expect(broker.keys).to.include.members(['r1', 'parked']));
    await eventually(async () =>
      expect((await admin.relaying()).map(({ name }) => name)).to.include(retryRelayLease),
    );
  });

  it('goes by the first word, and is told in the audit when it changes something', async () => {
    const first = await admin.pause({ who, because: 'first' });
    const second = await admin.pause({ who: 'operator:bob', because: 'second' });
    expect(second.changed).to.equal(false);
    expect(second.pause).to.deep.equal(first.pause);
    expect((await admin.resume({ who })).ended).to.deep.equal(first.pause);
    expect((await admin.resume({ who })).ended).to.equal(null);
    expect((await auditRows(db)).map((row) => [row.action, row.who])).to.deep.equal([
      ['relay.pause', who],
      ['relay.resume', who],
    ]);
  });
});

describe('publishing again from an id', () => {
  const workspace = useWorkspace();
  let db: Database;
  let admin: RelayAdmin;
  const relays = useRelays(() => db, recordingLog().log);
  before(() => {
    db = openTestDatabase(workspace(), 6);
    admin = createRelayAdmin(db, {
      stallAfterMs: 5000,
      slotLagBytesMax: 1e9,
      handledRetentionMs: 7 * 86_400_000,
    });
  });

  it('is only told in a dry run, and done and audited together', async () => {
    const rows = await appendViews(db, 'again', { count: 3 });
    const broker = createMemoryBroker();
    relays.startMain('a', broker);
    await eventually(() => expect(broker.keys).to.have.length(3));
    const fromId = rows[1]?.id ?? 0;

    const plan = { fromId, rows: 2, firstId: fromId, lastId: rows[2]?.id };
    expect(await admin.resync(fromId, { who, dryRun: true })).to.deep.equal({ dryRun: true, ...plan });
    expect(await auditRows(db)).to.deep.equal([]);
    expect((await admin.status()).pending).to.equal(0);

    expect(await admin.resync(fromId, { who, dryRun: false })).to.deep.equal({ dryRun: false, ...plan });
    await eventually(() => expect(broker.keys).to.have.length(5));
    const [entry] = await auditRows(db);
    expect(entry).to.deep.equal({ who, action: 'relay.resync', target: plan });
  });

  it('is refused for events that projections may have forgotten, and says from which id on it goes', async () => {
    const dayMs = 86_400_000;
    const agedDays = [8, 6.5, 5.9];
    await appendEvents(
      db,
      agedDays.map((days, index) => viewOf('aged', index + 1, new Date(Date.now() - days * dayMs))),
    );
    const aged = await db.execute<{ id: number }>({
      name: 'spec-aged',
      text: `select id from outbox where aggregate_id = 'aged' order by id`,
    });
    const audited = await auditRows(db);
    const [first, second, third] = aged.map(({ id }) => id) as [number, number, number];
    for (const [fromId, days] of [
      [first, '8 days old'],
      [second, '6.5 days old'],
    ] as const)
      for (const dryRun of [true, false]) {
        const refusal = await admin.resync(fromId, { who, dryRun }).catch((error: Error) => error);
        expect(refusal).to.be.instanceOf(OperatorError);
        const { line } = refusal as OperatorError;
        expect(line).to.contain(days).and.to.contain('up to 6 days old').and.to.contain('millrace rebuild');
        expect(line).to.contain(`--from-id ${third}`);
      }
    expect(await auditRows(db)).to.deep.equal(audited);
    expect((await admin.resync(third, { who, dryRun: true })).rows).to.equal(1);
  });
});
