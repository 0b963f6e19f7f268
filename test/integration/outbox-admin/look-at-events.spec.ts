import { expect } from 'chai';
import { appendEvents } from '../../../src/journal/append-events.ts';
import { parseAggregateRef, parseEventRef } from '../../../src/outbox-admin/event-selection.ts';
import { createOutboxAdmin, type OutboxAdmin } from '../../../src/outbox-admin/outbox-admin.ts';
import type { OutboxEvent } from '../../../src/outbox-admin/outbox-event.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { createDeadLetterNet } from '../../../src/relay/dead-letters.ts';
import { viewOf } from '../../support/journal.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { appendViews, clearHeldEvents, park, passEverything } from '../../support/outbox-admin.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const brief = (events: readonly OutboxEvent[]): string[] =>
  events.map(({ aggregateId, aggregateVersion, state }) => `${aggregateId}@${aggregateVersion} ${state}`);

describe('looking at the outbox', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();
  let db: Database;
  let outbox: OutboxAdmin;
  before(() => {
    db = openTestDatabase(workspace());
    outbox = createOutboxAdmin(db);
  });
  beforeEach(() => clearHeldEvents(db));
  const all = { limit: 1000 };
  const of = (aggregateId: string) => ({ aggregate: { aggregateType: 'ProductView', aggregateId }, ...all });

  it('lists what the relay has not come to, oldest first, and nothing once it has', async () => {
    await appendViews(db, 'new-1', { count: 3 });
    await appendViews(db, 'new-2', { count: 1 });
    expect(brief(await outbox.pending(all))).to.deep.equal([
      'new-1@1 new',
      'new-1@2 new',
      'new-1@3 new',
      'new-2@1 new',
    ]);
    expect(brief(await outbox.pending({ limit: 2 }))).to.deep.equal(['new-1@1 new', 'new-1@2 new']);
    expect(brief(await outbox.pending(of('new-2')))).to.deep.equal(['new-2@1 new']);
    expect(await outbox.pending({ ...all, eventType: 'loopers.order.created.v1' })).to.deep.equal([]);
    await passEverything(db);
    expect(await outbox.pending(all)).to.deep.equal([]);
    await appendViews(db, 'new-2', { count: 1, after: 1 });
    expect(brief(await outbox.pending(all))).to.deep.equal(['new-2@2 new']);
  });

  it('finds what is pending in a transaction that was open when the cursor passed', async () => {
    await db.transaction(async (tx) => {
      await appendEvents(tx, [viewOf('late-1', 1)]);
      await appendViews(db, 'early-1', { count: 1 });
      await passEverything(db);
    });
    expect(brief(await outbox.pending(of('early-1')))).to.deep.equal([]);
    expect(brief(await outbox.pending(of('late-1')))).to.deep.equal(['late-1@1 new']);
  });

  it('lists failed events with those behind them, and dead ones apart', async () => {
    await park(db, await appendViews(db, 'failed-1', { count: 2 }), { dead: false });
    await park(db, await appendViews(db, 'dead-1', { count: 2 }), { dead: true });
    expect(brief(await outbox.failed(all))).to.deep.equal([
      'failed-1@1 failed',
      'failed-1@2 waiting',
      'dead-1@2 waiting',
    ]);
    expect(brief(await outbox.dead(all))).to.deep.equal(['dead-1@1 dead']);
    expect(brief(await outbox.failed(of('dead-1')))).to.deep.equal(['dead-1@2 waiting']);
    expect(brief(await outbox.failed({ limit: 1 }))).to.deep.equal(['failed-1@1 failed']);
    const [first] = await outbox.failed(all);
    const eventType = first?.eventType ?? '';
    expect(await outbox.failed({ ...all, eventType })).to.have.length(3);
    expect(await outbox.dead({ ...all, eventType: 'loopers.order.created.v1' })).to.deep.equal([]);
    expect(first).to.include({ lastError: 'message too large', attempts: 0 });
    expect(first?.createdAt).to.be.a('date');
  });

  it('shows a dead letter whose failed row is gone, too', async () => {
    const [row] = await appendViews(db, 'letter-1', { count: 1 });
    if (!row) throw new Error('no row');
    const net = createDeadLetterNet({ database: db, backupFile: '/dev/null', log: silentLog() });
    await net.keep([{ row, reason: 'hash differs' }]);
    const [event] = await outbox.dead(all);
    expect(event).to.include({ id: row.id, eventId: row.eventId, state: 'dead', lastError: 'hash differs' });
    expect(event?.createdAt).to.deep.equal(row.createdAt);
    expect(await outbox.show({ outboxId: row.id })).to.include({ state: 'dead' });
  });

  it('tells the life of an event in each of its states, by either of its ids', async () => {
    const [sent] = await appendViews(db, 'life-1', { count: 1 });
    const parked = await appendViews(db, 'life-2', { count: 2 });
    await park(db, parked, { dead: false });
    const [dead] = await appendViews(db, 'life-3', { count: 1 });
    if (!sent || !dead || !parked[0] || !parked[1]) throw new Error('no rows');
    await park(db, [dead], { dead: true });
    await passEverything(db);
    const [fresh] = await appendViews(db, 'life-4', { count: 1 });
    if (!fresh) throw new Error('no row');

    const state = async (outboxId: number) => (await outbox.show({ outboxId }))?.state;
    expect(await state(sent.id)).to.equal('sent');
    expect(await state(parked[0].id)).to.equal('failed');
    expect(await state(parked[1].id)).to.equal('waiting');
    expect(await state(dead.id)).to.equal('dead');
    expect(await state(fresh.id)).to.equal('new');

    const shown = await outbox.show({ eventId: dead.eventId });
    expect(shown).to.include({ id: dead.id, isGenuine: true, lastError: 'message too large' });
    // As it is printed: what Avro decodes are instances of its own classes.
    expect(JSON.parse(JSON.stringify(shown?.envelope))).to.deep.include({
      id: dead.eventId,
      aggregateId: 'life-3',
      data: { productId: 'life-3', userId: null },
    });
    expect(await outbox.show({ outboxId: 999_999 })).to.equal(undefined);
    expect(await outbox.show({ eventId: '00000000-0000-4000-8000-000000000000' })).to.equal(undefined);
  });

  it('shows an event that cannot be read, and says that it is not what was written', async () => {
    const event = viewOf('broken-1', 1);
    await appendEvents(db, [{ ...event, payload: Buffer.from([0xff]) }]);
    const shown = await outbox.show({ eventId: event.eventId });
    expect(shown).to.include({ aggregateId: 'broken-1', isGenuine: false, payloadBytes: 1 });
    expect(shown?.envelope).to.have.property('unreadable').that.is.a('string');
  });

  it('reads what a person types', () => {
    expect(parseAggregateRef('Order/o/1')).to.deep.equal({ aggregateType: 'Order', aggregateId: 'o/1' });
    for (const text of ['', 'Order', '/o-1', 'Order/']) expect(parseAggregateRef(text)).to.equal(undefined);
    expect(parseEventRef('12')).to.deep.equal({ outboxId: 12 });
    expect(parseEventRef('0198C0DE-0000-7000-8000-000000000001')).to.deep.equal({
      eventId: '0198c0de-0000-7000-8000-000000000001',
    });
    for (const text of ['', '0', '-1', '1.5', '9999999999999999', 'abc']) {
      expect(parseEventRef(text), text).to.equal(undefined);
    }
  });
});
