import { expect } from 'chai';
import { frameLength } from '../../../src/avro/confluent-frame.ts';
import { envelopeSchemaOf } from '../../../src/avro/envelope-schema.ts';
import { readEnvelope } from '../../../src/avro/read-envelope.ts';
import { createOutboxAdmin, type OutboxAdmin } from '../../../src/outbox-admin/outbox-admin.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { createDeadLetterNet } from '../../../src/relay/dead-letters.ts';
import type { OutboxRow } from '../../../src/relay/outbox-source.ts';
import { eventually } from '../../support/eventually.ts';
import { createMemoryBroker, type MemoryBroker, useRelays } from '../../support/memory-broker.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import {
  appendViews,
  auditRows,
  changeableState,
  clearHeldEvents,
  park,
  passEverything,
} from '../../support/outbox-admin.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const who = 'cli:ann@desk';
const forReal = { who, dryRun: false };
const dryRun = { who, dryRun: true };

describe('changing what is in the outbox', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();
  let db: Database;
  let outbox: OutboxAdmin;
  const relays = useRelays(() => db, silentLog());
  before(() => {
    db = openTestDatabase(workspace(), 10);
    outbox = createOutboxAdmin(db);
  });
  beforeEach(() => clearHeldEvents(db));

  const published = ({ values }: MemoryBroker): string[] =>
    values.map((value) => {
      const { type } = envelopeSchemaOf('ProductViewed');
      const { aggregateId, aggregateVersion } = readEnvelope(type, value ?? Buffer.alloc(0), frameLength);
      return `${aggregateId}@${aggregateVersion}`;
    });
  /** An aggregate whose first event is dead, with its letter, after the relay has passed it. */
  const parked = async (
    aggregateId: string,
    count: number,
  ): Promise<readonly [OutboxRow, ...OutboxRow[]]> => {
    const [first, ...rest] = await appendViews(db, aggregateId, { count });
    if (!first) throw new Error('no row');
    await park(db, [first, ...rest], { dead: true });
    const net = createDeadLetterNet({ database: db, backupFile: '/dev/null', log: silentLog() });
    await net.keep([{ row: first, reason: 'message too large' }]);
    await passEverything(db);
    return [first, ...rest];
  };
  const letterCount = async (): Promise<number> => {
    const [row] = await db.execute<{ count: number }>({
      name: 'spec-letters',
      text: 'select count(*) as count from outbox_dead_letter',
    });
    return row?.count ?? 0;
  };

  describe('retry', () => {
    it('puts a parked aggregate back as one sequence, which is then published in order', async () => {
      const [, second] = await parked('back-1', 3);
      await parked('other-1', 1);
      const report = await outbox.retry({ event: { outboxId: second?.id ?? 0 } }, forReal);
      expect(report).to.deep.equal({ dryRun: false, events: 3, aggregates: 1, revived: 1 });
      expect(await letterCount(), 'the letter of the other one').to.equal(1);

      const broker = createMemoryBroker();
      relays.startRetry('x', broker);
      await eventually(() => expect(published(broker)).to.deep.equal(['back-1@1', 'back-1@2', 'back-1@3']));
      await eventually(async () => expect(await outbox.failed({ limit: 9 })).to.deep.equal([]));
      expect((await outbox.dead({ limit: 9 })).map(({ aggregateId }) => aggregateId)).to.deep.equal([
        'other-1',
      ]);
    });

    it('begins to count anew, at once', async () => {
      const [first] = await parked('count-1', 1);
      await db.execute(
        {
          name: 'spec-tired',
          text: `update outbox_failed set retry_count = 10, next_retry_at = now() + interval '1 hour' where outbox_id = $1`,
        },
        [first.id],
      );
      await outbox.retry({ aggregate: { aggregateType: 'ProductView', aggregateId: 'count-1' } }, forReal);
      const [row] = await outbox.failed({ limit: 9 });
      expect(row).to.include({ id: first.id, attempts: 0, state: 'failed', deadAt: null });
      expect(row?.nextRetryAt?.getTime()).to.be.lessThan(Date.now() + 5000);
    });

    it('takes an event id, an aggregate or everything, and leaves the rest alone', async () => {
      const [first] = await parked('pick-1', 2);
      await parked('pick-2', 1);
      expect(await outbox.retry({ event: { eventId: first.eventId } }, dryRun)).to.include({
        events: 2,
        aggregates: 1,
      });
      const aggregate = { aggregateType: 'ProductView', aggregateId: 'pick-2' };
      expect(await outbox.retry({ aggregate }, dryRun)).to.include({ events: 1, aggregates: 1 });
      expect(await outbox.retry('all', dryRun)).to.include({ events: 3, aggregates: 2, revived: 2 });
      expect(await outbox.retry({ event: { outboxId: 999_999 } }, forReal)).to.include({ events: 0 });
      expect(await auditRows(db), 'nothing happened, nothing is told').to.deep.equal([]);
    });

    it('sends an event again of which only the dead letter is left', async () => {
      const [first] = await parked('lone-1', 1);
      await db.execute({ name: 'spec-lose-failed', text: 'delete from outbox_failed' });
      expect(await outbox.retry('all', dryRun)).to.include({ events: 1, revived: 1 });
      expect(await outbox.dead({ limit: 9 })).to.have.length(1);
      expect(await outbox.retry({ event: { outboxId: first.id } }, forReal)).to.include({ events: 1 });
      expect(await outbox.dead({ limit: 9 })).to.deep.equal([]);
      const broker = createMemoryBroker();
      relays.startRetry('x', broker);
      await eventually(() => expect(published(broker)).to.deep.equal(['lone-1@1']));
    });

    it('changes nothing in a dry run', async () => {
      await parked('dry-1', 2);
      const before = await changeableState(db);
      await outbox.retry('all', dryRun);
      expect(await changeableState(db)).to.deep.equal(before);
    });

    it('tells in the audit who put back what, and shows it with the event', async () => {
      const [first, second] = await parked('audit-1', 2);
      await outbox.retry('all', forReal);
      expect(await auditRows(db)).to.deep.equal([
        {
          who,
          action: 'outbox.retry',
          target: { selection: 'all', events: 2, outboxIds: [first.id, second?.id] },
        },
      ]);
      const shown = await outbox.show({ outboxId: first.id });
      expect(shown?.operators.map(({ who: by, action }) => `${action} ${by}`)).to.deep.equal([
        `outbox.retry ${who}`,
      ]);
    });
  });

  describe('drop', () => {
    it('lets the next event of the aggregate go on, and the journal keeps the dropped one', async () => {
      const [first] = await parked('drop-1', 3);
      const outcome = await outbox.drop({ outboxId: first.id }, forReal);
      expect(outcome).to.have.property('outcome', 'dropped');
      expect(await letterCount()).to.equal(0);
      const broker = createMemoryBroker();
      relays.startRetry('x', broker);
      await eventually(() => expect(published(broker)).to.deep.equal(['drop-1@2', 'drop-1@3']));
      const shown = await outbox.show({ outboxId: first.id });
      expect(shown, 'it must not look as if it had been sent').to.include({ state: 'dropped' });
      expect(shown?.envelope).to.deep.include({ aggregateId: 'drop-1', aggregateVersion: 1 });
    });

    it('says what consumers will miss before it does anything', async () => {
      const [first] = await parked('warn-1', 2);
      const before = await changeableState(db);
      const outcome = await outbox.drop({ eventId: first.eventId }, dryRun);
      expect(outcome).to.have.property('outcome', 'would-drop');
      expect(outcome)
        .to.have.property('warning')
        .that.matches(/Consumers of \S+ will never see version 1 of ProductView\/warn-1 .*1 later event can/);
      expect(await changeableState(db)).to.deep.equal(before);
    });

    it('does not drop what only waits, nor what is not held', async () => {
      const [first, second] = await parked('wait-1', 2);
      const before = await changeableState(db);
      expect(await outbox.drop({ outboxId: second?.id ?? 0 }, forReal)).to.deep.include({
        outcome: 'waits-behind',
        firstId: first.id,
      });
      expect(await outbox.drop({ outboxId: 999_999 }, forReal)).to.deep.equal({ outcome: 'not-held' });
      expect(await changeableState(db)).to.deep.equal(before);
    });

    it('takes a dead letter whose failed row is gone, once', async () => {
      const [first] = await parked('lone-2', 1);
      await db.execute({ name: 'spec-lose-failed', text: 'delete from outbox_failed' });
      const outcomes = await Promise.all([1, 2].map(() => outbox.drop({ outboxId: first.id }, forReal)));
      expect(outcomes.map(({ outcome }) => outcome).toSorted()).to.deep.equal(['dropped', 'not-held']);
      expect(await auditRows(db)).to.have.length(1);
    });

    it('is told in the audit once, however often it is asked for', async () => {
      const [first] = await parked('twice-1', 1);
      const outcomes = await Promise.all([1, 2, 3].map(() => outbox.drop({ outboxId: first.id }, forReal)));
      expect(outcomes.map(({ outcome }) => outcome).toSorted()).to.deep.equal([
        'dropped',
        'not-held',
        'not-held',
      ]);
      const audit = await auditRows(db);
      expect(audit).to.have.length(1);
      expect(audit[0]).to.deep.include({ who, action: 'outbox.drop' });
      expect(audit[0]?.target).to.include({
        outboxId: first.id,
        eventId: first.eventId,
        aggregateId: 'twice-1',
        lastError: 'message too large',
      });
    });
  });
});
