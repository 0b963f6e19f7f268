import { expect } from 'chai';
import { appendEvents } from '../../../src/journal/append-events.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { eventually } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import { createMemoryBroker, useRelays } from '../../support/memory-broker.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { recordingLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

/** Longer than the lease of these relays, which is one second. */
const publishTimeoutMs = 1500;
const triesWanted = 4;

describe('brokers that hang instead of refusing', function () {
  this.timeout(120_000);
  const workspace = useWorkspace();
  let db: Database;
  const { log, lines } = recordingLog();
  const relays = useRelays(() => db, log, undefined, { publishTimeoutMs });
  before(() => {
    db = openTestDatabase(workspace(), 8);
  });

  const tokens = () =>
    db.execute<{ token: number; lapses: number }>({
      name: 'spec-lease',
      text: `select token, lapses from scheduler_lock where name = 'outbox-relay-main'`,
    });
  const suspicions = () =>
    db.execute<{ count: number }>({
      name: 'spec-suspicions',
      text: 'select (select count(*) from relay_suspicion) + (select count(*) from outbox_failed) as count',
    });

  it('do not take the lease from the relay that waits for them, and no event is suspected', async () => {
    const keys = Array.from({ length: 12 }, (_, index) => `k${index}`);
    for (const key of keys) await appendEvents(db, [viewOf(key, 1)]);
    let tries = 0;
    let isHanging = true;
    const brokers = [createMemoryBroker(), createMemoryBroker()];
    for (const [index, broker] of brokers.entries()) {
      broker.setMood(async () => {
        tries++;
        if (isHanging) await new Promise(() => {});
      });
      relays.startShards(`relay-${index}`, broker);
    }
    await eventually(() => expect(tries).to.be.at.least(triesWanted), { timeoutMs: 60_000 });
    isHanging = false;
    const arrived = () => brokers.flatMap((broker) => broker.keys);
    await eventually(() => expect(new Set(arrived())).to.deep.equal(new Set(keys)), { timeoutMs: 60_000 });
    expect(arrived()).to.deep.equal(keys);
    expect(await tokens()).to.deep.equal([{ token: 1, lapses: 0 }]);
    expect(await suspicions()).to.deep.equal([{ count: 0 }]);
    expect(lines.filter(({ msg }) => /one by one|put aside/.test(msg))).to.deep.equal([]);
  });
});
