import { expect } from 'chai';
import { appendEvents } from '../../../src/journal/append-events.ts';
import { listPendingEvents } from '../../../src/outbox-admin/list-pending-events.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { acquireLease, releaseLease } from '../../../src/relay/lease.ts';
import { loadPositions } from '../../../src/relay/load-positions.ts';
import { resyncCursor } from '../../../src/relay/resync-cursor.ts';
import { leaseOfShard, shardsOf } from '../../../src/relay/shard.ts';
import { readShardFigures } from '../../../src/relay/shard-figures.ts';
import { beginSharding } from '../../../src/relay/sharding.ts';
import { eventually as eventuallyWithin } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import {
  brokerTrouble,
  createMemoryBroker,
  type MemoryBroker,
  useRelays,
} from '../../support/memory-broker.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { recordingLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const shards = 4;
const keysPerTest = 24;
/** Relays find each other at their own pace, and the machine may be busy. */
const eventually = (assertion: () => unknown): Promise<unknown> =>
  eventuallyWithin(assertion, { timeoutMs: 60_000 });

describe('shards of the relay', function () {
  this.timeout(120_000);
  const workspace = useWorkspace();
  let db: Database;
  const { log, lines } = recordingLog();
  const relays = useRelays(() => db, log);
  before(async () => {
    db = openTestDatabase(workspace(), 10);
    expect(await beginSharding(db, shards)).to.equal(shards);
  });

  let tests = 0;
  /** Three versions each of some aggregates, under keys that no other test uses. */
  const append = async (): Promise<readonly string[]> => {
    tests += 1;
    const keys = Array.from({ length: keysPerTest }, (_, index) => `t${tests}-k${index}`);
    for (const version of [1, 2, 3]) for (const key of keys) await appendEvents(db, [viewOf(key, version)]);
    return keys;
  };
  const allArrive = (brokers: readonly MemoryBroker[], keys: readonly string[], times = 3) =>
    eventually(() => {
      const seen = brokers.flatMap((broker) => broker.keys);
      const missing = keys.filter((key) => seen.filter((other) => other === key).length < times);
      expect(missing).to.deep.equal([]);
    });
  const owners = async (): Promise<readonly string[]> =>
    (
      await db.execute<{ owner: string }>({
        name: 'spec-owners',
        text: `
          select locked_by as owner from scheduler_lock
          where name like 'outbox-relay-main%' and locked_until > clock_timestamp() order by name`,
      })
    ).map(({ owner }) => owner);
  const shareOf = async (holder: string): Promise<number> =>
    (await owners()).filter((owner) => owner === holder).length;

  it('are as many as the first relay wanted, and stay so', async () => {
    expect(await beginSharding(db, 2)).to.equal(shards);
    expect((await loadPositions(db)).map(({ shard }) => shard)).to.deep.equal(shardsOf(shards));
  });

  it('have a lease each, which nobody gets for a number of shards that is not in force', async () => {
    const request = (shard: { number: number; of: number }, holder: string) => ({
      name: leaseOfShard(shard),
      holder,
      holdMs: 60_000,
      ofShards: shard.of,
    });
    const [first, second] = shardsOf(shards);
    if (!first || !second) throw new Error('There are four');
    expect(leaseOfShard(first)).to.equal('outbox-relay-main/1-of-4');
    expect(leaseOfShard({ number: 1, of: 1 })).to.equal('outbox-relay-main');
    expect(await acquireLease(db, request(first, 'a'))).to.include({ token: 1 });
    expect(await acquireLease(db, request(second, 'b'))).to.include({ token: 1 });
    expect(await acquireLease(db, request(first, 'b'))).to.equal(undefined);
    expect(await acquireLease(db, request({ number: 1, of: 2 }, 'a'))).to.equal(undefined);
    await releaseLease(db, request(first, 'a'));
    await releaseLease(db, request(second, 'b'));
  });

  it('divide the journal: each key is relayed by one of them, all keys by all of them, once', async () => {
    const keys = await append();
    const broker = createMemoryBroker();
    relays.startShards('alone', broker);
    await allArrive([broker], keys);
    expect(broker.keys.filter((key) => keys.includes(String(key)))).to.have.length(3 * keysPerTest);
    expect(await shareOf('alone')).to.equal(shards);

    const spread = await db.execute<{ shard: number }>({
      name: 'spec-spread',
      text: 'select distinct outbox_shard(partition_key, 4) as shard from outbox order by 1',
    });
    expect(spread.map(({ shard }) => shard)).to.deep.equal([1, 2, 3, 4]);
  });

  it('spread over the relays that are alive, and go to those who stay when one leaves', async () => {
    const brokers = [createMemoryBroker(), createMemoryBroker(), createMemoryBroker()] as const;
    const first = relays.startShards('x', brokers[0]);
    await eventually(async () => expect(await shareOf('x')).to.equal(4));
    relays.startShards('y', brokers[1]);
    await eventually(async () => expect([await shareOf('x'), await shareOf('y')]).to.deep.equal([2, 2]));
    relays.startShards('z', brokers[2]);
    await eventually(async () => {
      const shares = [await shareOf('x'), await shareOf('y'), await shareOf('z')];
      expect(shares.toSorted()).to.deep.equal([1, 1, 2]);
    });
    await allArrive(brokers, await append());
    expect(
      brokers.every(({ keys }) => keys.length > 0),
      'each has relayed something',
    ).to.equal(true);
    await first.stop();
    await eventually(async () => expect([await shareOf('y'), await shareOf('z')]).to.deep.equal([2, 2]));
    await allArrive(brokers, await append());
  });

  it('of a relay that is cut off from the brokers go to the others, and it gets its share when it reaches them', async () => {
    const [lost, well] = [createMemoryBroker(), createMemoryBroker()];
    let reachedByLost = 3;
    relays.startShards('lost', lost, async () => reachedByLost);
    relays.startShards('well', well, async () => 3);
    const shares = async () => [await shareOf('lost'), await shareOf('well')];
    await eventually(async () => expect(await shares()).to.deep.equal([2, 2]));
    reachedByLost = 0;
    lost.setMood(() => {
      throw brokerTrouble();
    });
    const keys = await append();
    await eventually(async () => expect(await shares()).to.deep.equal([0, 4]));
    await allArrive([lost, well], keys);
    reachedByLost = 3;
    lost.setMood(() => {});
    await eventually(async () => expect(await shares()).to.deep.equal([2, 2]));
    await allArrive([lost, well], await append());
  });

  it('of a relay that died go to another, which says so and counts it', async () => {
    for (const shard of shardsOf(shards)) {
      await acquireLease(db, { name: leaseOfShard(shard), holder: 'dead', holdMs: 50, ofShards: shards });
    }
    lines.length = 0;
    const broker = createMemoryBroker();
    relays.startShards('heir', broker);
    await allArrive([broker], await append());
    const told = lines.filter(
      (line) => line.msg.includes('stopped answering') && line.formerHolder === 'dead',
    );
    expect(told.map(({ lease }) => lease)).to.have.members(shardsOf(shards).map(leaseOfShard));
    expect(told.every(({ level }) => level === 40)).to.equal(true);
    const counted = await db.execute({
      name: 'spec-lapses',
      text: 'select from scheduler_lock where lapses > 0',
    });
    expect(counted).to.have.length.at.least(shards);
  });

  it('are told apart by what is pending and by the state of an event', async () => {
    const keys = await append();
    const stateOf = {
      name: 'spec-states',
      text: `
      select outbox_shard(partition_key, 4) as shard, state, count(*) as events
      from outbox_event_state join outbox using (id) where partition_key = any ($1) group by 1, 2 order by 1`,
    };
    expect((await listPendingEvents(db, { limit: 1000 })).length).to.equal(3 * keysPerTest);

    // One shard passes everything, the others stay where they are.
    await db.execute({
      name: 'spec-pass-shard',
      text: `
        insert into outbox_cursor (from_snapshot, to_snapshot, last_id, lease_token, system_identifier, shards, shard)
        select pg_current_snapshot(), pg_current_snapshot(), 0, 1, system_identifier, 4, 2 from pg_control_system()`,
    });
    const states = await db.execute<{ shard: number; state: string; events: number }>(stateOf, [keys]);
    expect(states.map(({ shard, state }) => `${shard} ${state}`)).to.deep.equal([
      '1 new',
      '2 sent',
      '3 new',
      '4 new',
    ]);
    const inSecond = states[1]?.events ?? 0;
    expect((await listPendingEvents(db, { limit: 1000 })).length).to.equal(3 * keysPerTest - inSecond);
    const figures = await readShardFigures(db);
    expect(figures.map(({ pending }) => pending)).to.deep.equal(
      states.map(({ state, events }) => (state === 'new' ? events : 0)),
    );
    const broker = createMemoryBroker();
    relays.startShards('rest', broker);
    await eventually(async () => expect(await listPendingEvents(db, { limit: 10 })).to.deep.equal([]));
  });

  it('all publish again from an id', async () => {
    const broker = createMemoryBroker();
    relays.startShards('again', broker);
    const keys = await append();
    await allArrive([broker], keys);
    const [row] = await db.execute<{ id: number }>(
      { name: 'spec-first-id', text: 'select min(id) as id from outbox where partition_key = any ($1)' },
      [keys],
    );
    await db.transaction((tx) => resyncCursor(tx, row?.id ?? 0));
    await allArrive([broker], keys, 6);
  });
});
