import { expect } from 'chai';
import { appendEvents } from '../../../src/journal/append-events.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { planResync, resyncCursor } from '../../../src/relay/resync-cursor.ts';
import { eventually } from '../../support/eventually.ts';
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

const range = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, index) => `k${from + index}`);

describe('relay', () => {
  const workspace = useWorkspace();
  let db: Database;
  const { log, lines } = recordingLog();
  const relays = useRelays(() => db, log);
  before(() => {
    db = openTestDatabase(workspace(), 6);
  });
  const start = (holder: string, broker: MemoryBroker) => relays.startMain(holder, broker);
  const append = async (keys: readonly string[]): Promise<void> => {
    for (const key of keys) await appendEvents(db, [viewOf(key, 1)]);
  };

  it('publishes every row once and in order, and goes on where it stopped', async () => {
    await append(range(0, 12));
    const broker = createMemoryBroker();
    const first = start('a', broker);
    await eventually(() => expect(broker.keys).to.deep.equal(range(0, 12)));
    await first.stop();
    await append(range(12, 20));
    start('a', broker);
    await eventually(() => expect(broker.keys).to.deep.equal(range(0, 20)));
  });

  it('keeps rows that could not be sent, says so once, and sends them in order later', async () => {
    const broker = createMemoryBroker();
    broker.setMood(() => {
      throw brokerTrouble();
    });
    lines.length = 0;
    start('b', broker);
    await append(range(20, 32));
    await eventually(() => expect(lines.some(({ msg }) => msg.includes('cannot publish'))).to.equal(true));
    broker.setMood(() => {});
    await eventually(() => expect(broker.keys).to.deep.equal(range(20, 32)));
    const troubles = lines.filter(({ level }) => level >= 40).map(({ msg }) => msg);
    expect(troubles).to.deep.equal([
      'The relay cannot publish; it keeps trying and loses nothing',
      'The relay publishes again',
    ]);
  });

  it('repeats a page whose cursor it could not move, and loses none of it', async () => {
    const broker = createMemoryBroker();
    let failures = 2;
    const flaky: Database = {
      ...db,
      execute: (statement, values) =>
        statement.name === 'move-outbox-cursor' && failures-- > 0
          ? Promise.reject(new Error('the connection broke after the send'))
          : db.execute(statement, values),
    };
    const kept = db;
    db = flaky;
    start('c', broker);
    db = kept;
    await append(range(32, 36));
    await eventually(() => expect(new Set(broker.keys)).to.deep.equal(new Set(range(32, 36))));
    await eventually(() => expect(failures).to.be.lessThan(0));
    expect(broker.keys.length).to.be.greaterThan(4);
  });

  it('leaves the work to one of two, and the other takes over when that one stops', async () => {
    const brokers = [createMemoryBroker(), createMemoryBroker()] as const;
    const first = start('d1', brokers[0]);
    await append(range(36, 38));
    await eventually(() => expect(brokers[0].keys).to.deep.equal(range(36, 38)));
    start('d2', brokers[1]);
    await append(range(38, 40));
    await eventually(() => expect(brokers[0].keys).to.deep.equal(range(36, 40)));
    await first.stop();
    await append(range(40, 42));
    await eventually(() => expect(brokers[1].keys).to.deep.equal(range(40, 42)));
  });

  it('refuses a cursor of another server until somebody says from where to publish again', async () => {
    const broker = createMemoryBroker();
    await db.execute({ name: 'spec-restore', text: 'update outbox_cursor set system_identifier = 1' });
    await append(range(42, 44));
    lines.length = 0;
    start('e', broker);
    await eventually(() => expect(lines.some(({ msg }) => msg.includes('cannot publish'))).to.equal(true));
    expect(JSON.stringify(lines)).to.match(/relay resync --from-id/);
    expect(broker.keys).to.deep.equal([]);

    const all = await db.execute<{ id: number; key: string }>({
      name: 'spec-rows-by-key',
      text: 'select id, partition_key as key from outbox order by id',
    });
    const fromId = all.find(({ key }) => key === 'k40')?.id ?? 0;
    expect(await planResync(db, fromId)).to.include({ rows: 4, firstId: fromId });
    await db.transaction((tx) => resyncCursor(tx, fromId));
    // The relay that was at work may publish a page twice before it learns that its lease is gone.
    const firstSeen = () => [...new Set(broker.keys)];
    await eventually(() => expect(firstSeen()).to.deep.equal(range(40, 44)));
    await append(range(44, 45));
    await eventually(() => expect(firstSeen()).to.deep.equal(range(40, 45)));
  });

  it('publishes again from an id while it runs, and does not go back on its own', async () => {
    const broker = createMemoryBroker();
    start('f', broker);
    await append(range(45, 47));
    await eventually(() => expect(broker.keys).to.deep.equal(range(45, 47)));
    const [row] = await db.execute<{ id: number }>({
      name: 'spec-id-of-key',
      text: `select id from outbox where partition_key = 'k46'`,
    });
    await db.transaction((tx) => resyncCursor(tx, row?.id ?? 0));
    await eventually(() => expect(broker.keys).to.deep.equal([...range(45, 47), 'k46']));
  });

  it('takes any id that there can be', async () => {
    const broker = createMemoryBroker();
    await db.transaction((tx) => resyncCursor(tx, Number.MAX_SAFE_INTEGER));
    start('g', broker);
    await append(range(47, 48));
    await eventually(() => expect(broker.keys).to.deep.equal(range(47, 48)));
  });
});
