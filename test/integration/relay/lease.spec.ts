import { expect } from 'chai';
import type { Database } from '../../../src/postgres/database.ts';
import { acquireLease, releaseLease } from '../../../src/relay/lease.ts';
import { loadOutboxCursor, moveOutboxCursor } from '../../../src/relay/outbox-cursor.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';

const name = 'job';
const holdMs = 60_000;

describe('lease', () => {
  const workspace = useWorkspace();
  let db: Database;
  before(() => {
    db = openTestDatabase(workspace());
  });
  beforeEach(() => db.execute({ name: 'spec-clear', text: 'delete from scheduler_lock' }));

  const expire = () =>
    db.execute({
      name: 'spec-expire',
      text: `update scheduler_lock set locked_until = clock_timestamp() - interval '1 ms'`,
    });

  it('has one holder, who may renew it under the same token', async () => {
    const first = await acquireLease(db, { name, holder: 'a', holdMs });
    expect(await acquireLease(db, { name, holder: 'b', holdMs })).to.equal(undefined);
    expect(await acquireLease(db, { name, holder: 'a', holdMs })).to.deep.equal(first);
  });

  it('goes to one of many who ask at once', async () => {
    const all = await Promise.all(
      Array.from({ length: 8 }, (_, index) => acquireLease(db, { name, holder: `h${index}`, holdMs })),
    );
    expect(all.filter((lease) => lease !== undefined)).to.have.length(1);
  });

  it('goes to another when its time is over or it is given back, under a higher token', async () => {
    const first = await acquireLease(db, { name, holder: 'a', holdMs });
    await expire();
    const second = await acquireLease(db, { name, holder: 'b', holdMs });
    await releaseLease(db, { name, holder: 'b' });
    const third = await acquireLease(db, { name, holder: 'c', holdMs });
    expect([first?.token, second?.token, third?.token]).to.deep.equal([1, 2, 3]);
  });

  it('that has gone to another keeps its former holder from moving the cursor', async () => {
    const mine = await acquireLease(db, { name, holder: 'paused', holdMs });
    await expire();
    const theirs = await acquireLease(db, { name, holder: 'next', holdMs });
    if (!mine || !theirs) throw new Error('Both had it in turn');
    const cursor = { from: '10:10:', to: '20:20:', lastId: 5 };
    const row = await moveOutboxCursor(db, { cursor }, { row: null, lease: theirs });
    if (!row) throw new Error('Theirs is the lease that counts');
    const late = { cursor: { ...cursor, lastId: 3 } };
    expect(await moveOutboxCursor(db, late, { row, lease: mine })).to.equal(undefined);
    expect(await loadOutboxCursor(db)).to.deep.equal({ cursor, row });
  });

  it('is not enough when the cursor comes from another database server', async () => {
    const lease = await acquireLease(db, { name, holder: 'a', holdMs });
    if (!lease) throw new Error('Nobody else wanted it');
    const { row } = await loadOutboxCursor(db);
    await moveOutboxCursor(db, { cursor: { from: '10:10:', to: '20:20:', lastId: 5 } }, { row, lease });
    await db.execute({ name: 'spec-restore', text: 'update outbox_cursor set system_identifier = 1' });
    const refused = await loadOutboxCursor(db).catch((error: Error) => error.name);
    expect(refused).to.equal('ForeignCursor');
  });
});
