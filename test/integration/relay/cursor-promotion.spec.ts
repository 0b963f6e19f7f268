import { expect } from 'chai';
import { appendEvents } from '../../../src/journal/append-events.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { createCursorSource } from '../../../src/relay/cursor-source.ts';
import { acquireLease, type Lease, LeaseMoved } from '../../../src/relay/lease.ts';
import { findOutboxDelta } from '../../../src/relay/open-outbox-delta.ts';
import { loadOutboxCursor } from '../../../src/relay/outbox-cursor.ts';
import type { OutboxPage, OutboxSource } from '../../../src/relay/outbox-source.ts';
import { DeltaGone, readOutboxPage } from '../../../src/relay/read-outbox-page.ts';
import { eventually } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import { openDatabaseAt } from '../../support/open-database.ts';
import { usePostgresPair } from '../../support/postgres-pair.ts';

const rowsMax = 100;

/** What the relay knows in memory comes from a server that is gone; its successor has not all of it. */
describe('the cursor when a standby is promoted', function () {
  this.timeout(180_000);
  const pair = usePostgresPair();
  let db: Database;
  let lease: Lease;

  before(async () => {
    db = openDatabaseAt(pair().databaseUrl, 2);
    const taken = await acquireLease(db, { name: 'spec-relay', holder: 'spec', holdMs: 3_600_000 });
    if (!taken) throw new Error('Nobody else wants the lease');
    lease = taken;
    await pair().catchUp();
  });
  after(() => db.close());

  /** One transaction for each. */
  const append = async (...names: readonly string[]): Promise<void> => {
    for (const name of names) await appendEvents(db, [viewOf(name, 1)]);
  };
  const promote = async (): Promise<void> => {
    await pair().promote();
    // Connections that were lost are noticed by and by.
    await eventually(() => db.execute({ name: 'spec-alive', text: 'select 1' }));
    await eventually(() =>
      db.readBinary({ name: 'spec-reader-alive', text: 'select 1' }, [], { bytesMax: 100 }),
    );
    await pair().addStandby();
  };
  const namesOf = (page: OutboxPage | undefined): readonly string[] =>
    page?.rows.map(({ aggregateId }) => aggregateId) ?? [];
  /** As the relay does it: it makes sure of its lease, and goes on from what is stored. */
  const nextPage = (source: OutboxSource): Promise<OutboxPage | undefined> =>
    source.nextPage(rowsMax, lease).catch((error: unknown) => {
      if (!(error instanceof LeaseMoved)) throw error;
      return source.nextPage(rowsMax, lease);
    });
  const settleAll = async (source: OutboxSource): Promise<readonly string[]> => {
    const names: string[] = [];
    for (;;) {
      const page = await nextPage(source);
      if (!page) return names;
      names.push(...namesOf(page));
      expect(await source.settle(page, page.rows.length, [], lease)).to.equal(true);
    }
  };

  it('is not moved by a page of the old primary over events that the new one gave the same transaction ids', async () => {
    const source = createCursorSource(db);
    await append('before');
    await settleAll(source);
    await pair().catchUp();

    pair().holdReplication();
    await append('lost-1', 'lost-2', 'lost-3', 'lost-4');
    const page = await source.nextPage(rowsMax, lease);
    expect(namesOf(page)).to.deep.equal(['lost-1', 'lost-2', 'lost-3', 'lost-4']);
    await promote();

    await append('new-1', 'new-2');
    expect(page && (await source.settle(page, page.rows.length, [], lease))).to.equal(false);
    await append('new-3', 'new-4', 'new-5', 'new-6');
    expect(await settleAll(source)).to.deep.equal(['new-1', 'new-2', 'new-3', 'new-4', 'new-5', 'new-6']);
  });

  it('is not gone on from in memory when the new primary does not have it, also with nothing on its way', async () => {
    const source = createCursorSource(db);
    await settleAll(source);
    await pair().catchUp();

    pair().holdReplication();
    await append('lost-5', 'lost-6', 'lost-7');
    expect(await settleAll(source)).to.have.length(3);
    await promote();

    await append('new-7');
    expect(await settleAll(source)).to.deep.equal(['new-7']);
  });

  it('goes on where it is when the new primary has all of it', async () => {
    const source = createCursorSource(db);
    await append('kept-1', 'kept-2', 'kept-3');
    const page = await source.nextPage(2, lease);
    await pair().catchUp();
    await promote();
    expect(page && (await source.settle(page, 2, [], lease))).to.equal(true);
    expect(await settleAll(source)).to.deep.equal(['kept-3']);
  });

  it('does not take a page of a server without the delta for a page of the delta', async () => {
    await append('elsewhere');
    const { cursor } = await loadOutboxCursor(db);
    const delta = await findOutboxDelta(db, cursor.from);
    if (!delta) throw new Error('There is something new');
    const row = { id: Number.MAX_SAFE_INTEGER, writtenAt: '2026-01-01 00:00:00.000001+00' };
    const refusal = await readOutboxPage(db, delta, { rowsMax, row }).catch((error: unknown) => error);
    expect(refusal).to.be.instanceOf(DeltaGone);
  });
});
