import { expect } from 'chai';
import { appendEvents } from '../../../src/journal/append-events.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { readOutboxFigures } from '../../../src/relay/outbox-figures.ts';
import { eventually } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import { createMemoryBroker, recordRefused, useRelays } from '../../support/memory-broker.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

describe('figures of the outbox', () => {
  const workspace = useWorkspace();
  let db: Database;
  const relays = useRelays(() => db, silentLog());
  before(() => {
    db = openTestDatabase(workspace(), 6);
  });

  it('are all zero before the first event', async () => {
    expect(await readOutboxFigures(db)).to.deep.equal({
      pending: 0,
      overdue: 0,
      oldestPendingAgeMs: 0,
      failed: 0,
      dead: 0,
      isPaused: false,
      ghosts: 0,
    });
  });

  it('tell what waits and since when, also of a transaction that began before others had committed', async () => {
    await db.transaction(async (slow) => {
      await appendEvents(slow, [viewOf('slow', 1)]);
      await appendEvents(db, [viewOf('a', 1)]);
      const broker = createMemoryBroker();
      const relay = relays.startMain('r', broker);
      await eventually(() => expect(broker.keys).to.deep.equal(['a']));
      await relay.stop();
      await appendEvents(db, [viewOf('b', 1)]);
      expect(await readOutboxFigures(db)).to.include({ pending: 1 });
    });
    const figures = await readOutboxFigures(db);
    expect(figures).to.include({ pending: 2, overdue: 0 });
    expect(figures.oldestPendingAgeMs).to.be.greaterThan(0);
  });

  it('leave out what the relay has passed, and tell of what did not get through', async () => {
    const broker = createMemoryBroker();
    broker.setMood((records) => {
      if (records.some(({ key }) => key === 'bad')) throw recordRefused();
    });
    await appendEvents(db, [viewOf('bad', 1)]);
    await appendEvents(db, [viewOf('bad', 2)]);
    relays.startMain('r', broker);
    await eventually(async () => {
      expect(await readOutboxFigures(db)).to.include({
        pending: 0,
        oldestPendingAgeMs: 0,
        failed: 2,
        dead: 0,
      });
    });
  });
});
