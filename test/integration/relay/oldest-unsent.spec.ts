import { expect } from 'chai';
import { appendEvents } from '../../../src/journal/append-events.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { countHeldEvents } from '../../../src/relay/count-held-events.ts';
import { findOldestUnsent } from '../../../src/relay/oldest-unsent.ts';
import { createRelayAdmin } from '../../../src/relay-admin/relay-admin.ts';
import { eventually } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import { createMemoryBroker, recordRefused, useRelays } from '../../support/memory-broker.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { startTestApp } from '../../support/running-app.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const at = (minute: number): Date => new Date(Date.UTC(2026, 0, 1, 12, minute));

describe('the oldest event that the relay has not sent', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();
  let db: Database;
  const relays = useRelays(() => db, silentLog());
  before(() => {
    db = openTestDatabase(workspace(), 6);
  });

  it('is nobody before the first event', async () => {
    expect(await findOldestUnsent(db)).to.equal(undefined);
  });

  it('is told by its own time, also where a transaction began before what the relay has passed', async () => {
    await db.transaction(async (slow) => {
      await appendEvents(slow, [viewOf('slow', 1, at(3))]);
      await appendEvents(db, [viewOf('a', 1, at(1))]);
      expect(await findOldestUnsent(db)).to.deep.equal(at(1));
      const broker = createMemoryBroker();
      const relay = relays.startMain('r', broker);
      await eventually(() => expect(broker.keys).to.deep.equal(['a']));
      await eventually(async () => expect(await findOldestUnsent(db)).to.equal(undefined));
      await relay.stop();
      await appendEvents(db, [viewOf('b', 1, at(5)), viewOf('c', 1, at(4))]);
      expect(await findOldestUnsent(db)).to.deep.equal(at(4));
    });
    expect(await findOldestUnsent(db)).to.deep.equal(at(3));
  });

  it('is one that is tried again, and neither one that waits for an operator nor those behind it', async () => {
    const broker = createMemoryBroker();
    broker.setMood((records) => {
      if (records.some(({ key }) => key === 'bad')) throw recordRefused();
    });
    await appendEvents(db, [viewOf('bad', 1, at(7))]);
    await appendEvents(db, [viewOf('bad', 2, at(8))]);
    const relay = relays.startMain('r', broker);
    await eventually(async () => expect(await countHeldEvents(db)).to.deep.equal({ failed: 2, dead: 0 }));
    await relay.stop();
    expect(await findOldestUnsent(db)).to.deep.equal(at(7));
    relays.startRetry('r', broker);
    await eventually(async () => expect(await countHeldEvents(db)).to.include({ dead: 1 }));
    expect(await findOldestUnsent(db)).to.equal(undefined);
  });
});

describe('the oldest event that a relay on the write-ahead log has not sent', function () {
  this.timeout(120_000);
  const workspace = useWorkspace({ RELAY_SOURCE: 'wal' });

  it('is nobody as soon as the relay has nothing left to do, without another event to push it on', async () => {
    const db = openTestDatabase(workspace(), 3);
    await startTestApp(workspace(), 'relay');
    await appendEvents(db, [viewOf('a', 1, at(1))]);
    await eventually(async () => expect(await findOldestUnsent(db)).to.equal(undefined), {
      timeoutMs: 60_000,
    });
    const { relay: settings, streams } = workspace().config;
    const relay = createRelayAdmin(db, { ...settings, ...streams });
    await relay.pause({ who: 'spec', because: null });
    await eventually(async () => expect(await relay.relaying()).to.deep.equal([]), { timeoutMs: 60_000 });
    await appendEvents(db, [viewOf('b', 1, at(2))]);
    expect(await findOldestUnsent(db)).to.deep.equal(at(2));
  });
});
