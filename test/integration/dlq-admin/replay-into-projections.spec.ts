import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { App } from '../../../src/app/start-app.ts';
import { frame } from '../../../src/avro/confluent-frame.ts';
import { envelopeSchemaOf, subjectOf } from '../../../src/avro/envelope-schema.ts';
import type { DeadLetterAdmin } from '../../../src/dlq-admin/dlq-admin.ts';
import type { DomainEvent } from '../../../src/domain/domain-event.ts';
import { orderId, paymentId, productId, userId } from '../../../src/domain/ids.ts';
import { eventCatalogue } from '../../../src/event-catalogue/event-catalogue.ts';
import { type StreamId, sealEvent } from '../../../src/journal/seal-event.ts';
import type { Database } from '../../../src/postgres/database.ts';
import {
  type DeadLetterDesk,
  openDeadLetterDesk,
  parkedKeys,
  writeLetters,
  writeMessage,
} from '../../support/dead-letters.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { startTestApp } from '../../support/running-app.ts';
import { useWorkspace } from '../../support/stack.ts';

const day = 24 * 60 * 60 * 1000;
const partition = 1;
const forReal = { who: 'cli:ann@desk', dryRun: false, force: false };
const patient = { timeoutMs: 120_000 };

describe('replaying dead letters into the projections', function () {
  this.timeout(400_000);
  const workspace = useWorkspace();
  let db: Database;
  let desk: DeadLetterDesk;
  let admin: DeadLetterAdmin;
  let projector: App;
  before(async function () {
    this.timeout(400_000);
    db = openTestDatabase(workspace());
    desk = await openDeadLetterDesk(workspace(), db);
    admin = desk.admin;
    projector = await startTestApp(workspace(), 'projector');
  });

  /** A record's value as the relay publishes it. */
  const framedValue = async (
    stream: StreamId,
    version: number,
    event: DomainEvent,
    occurredAt = new Date(),
  ) => {
    const eventId = uuidv7();
    const context = { requestId: eventId, correlationId: eventId, traceparent: null };
    const sealed = sealEvent({ eventId, stream, version, event, occurredAt, source: 'spec', context });
    const { fullName, json } = envelopeSchemaOf(event.type);
    const { topic } = eventCatalogue[event.type];
    return frame(await desk.registry.idOf(subjectOf(topic, fullName), json), sealed.payload);
  };

  const statisticOf = async (id: string): Promise<{ views: number; sales: number }> => {
    const [row] = await db.execute<{ views: number; sales: number }>(
      {
        name: 'spec-statistic',
        text: 'select view_count as views, sales_count as sales from product_statistic where product_id = $1',
      },
      [id],
    );
    return row ?? { views: 0, sales: 0 };
  };

  /** Waits until every projection that reads the topic has come past an offset. */
  const passed = (topic: string, offset: number): Promise<void> =>
    eventually(async () => {
      const rows = await db.execute<{ nextOffset: number }>(
        {
          name: 'spec-checkpoints',
          text: `select next_offset as "nextOffset" from projection_checkpoint where topic = $1 and partition = $2`,
        },
        [workspace().unique(topic), partition],
      );
      expect(rows.length).to.be.greaterThan(0);
      for (const { nextOffset } of rows) expect(nextOffset).to.be.greaterThan(offset);
    }, patient);

  const openLetters = async (key: string, projection: string) =>
    (await admin.list({ key, projection, limit: 100 })).letters.map(({ letter }) => letter);

  it('counts nothing twice, also after 29 days and in a process that never saw the record', async () => {
    const key = 'old-mill';
    const view = (occurredAt?: Date) =>
      framedValue(
        { aggregateType: 'ProductView', aggregateId: uuidv7() },
        1,
        { type: 'ProductViewed', productId: productId(key), userId: null },
        occurredAt,
      );
    const longAgo = new Date(Date.now() - 29 * day);
    const value = await view(longAgo);
    const offset = await writeMessage(workspace(), 'product-view-events', { key, value, partition });
    await eventually(async () => expect((await statisticOf(key)).views).to.equal(1), patient);
    await projector.stop();

    const [id = ''] = await writeLetters(workspace(), [
      { topic: 'product-view-events', key, value, partition, offset, failedAt: longAgo },
    ]);
    projector = await startTestApp(workspace(), 'projector');
    const selection = { by: 'ids', places: [desk.place(id)] } as const;
    expect(await admin.replay(selection, forReal)).to.include({ outcome: 'replayed' });
    expect(await admin.replay(selection, { ...forReal, force: true })).to.include({ outcome: 'replayed' });
    const last = await writeMessage(workspace(), 'product-view-events', {
      key,
      value: await view(),
      partition,
    });
    await passed('product-view-events', last);
    expect((await statisticOf(key)).views).to.equal(2);
    expect(await openLetters(key, 'product-statistic')).to.deep.equal([]);
  });

  describe('a parked key', () => {
    const order = (key: string) => {
      const stream = { aggregateType: 'Order', aggregateId: key } as const;
      const facts = {
        orderId: orderId(key),
        userId: userId('ann'),
        items: [{ productId: productId(`bought-in-${key}`), quantity: 2, unitPriceMinor: 100 }],
        total: { amountMinor: 200, currency: 'EUR' },
      };
      return {
        created: () => framedValue(stream, 1, { type: 'OrderCreated', ...facts }),
        paid: () => framedValue(stream, 2, { type: 'OrderPaid', ...facts, paymentId: paymentId('pay-1') }),
      };
    };
    const send = (key: string, value: Buffer) =>
      writeMessage(workspace(), 'order-events', { key, value, partition });
    const statusOf = async (key: string): Promise<string | undefined> => {
      const [row] = await db.execute<{ status: string }>(
        { name: 'spec-order', text: 'select status from order_view where order_id = $1' },
        [key],
      );
      return row?.status;
    };
    const recordsOf = async (key: string): Promise<number> =>
      (await parkedKeys(db, 'order-view')).find((parked) => parked.key === key)?.records ?? 0;
    const parkedWith = (key: string, records: number) =>
      eventually(async () => expect(await recordsOf(key)).to.equal(records), patient);
    const replayKey = (key: string) => admin.replay({ by: 'key', key, projection: 'order-view' }, forReal);
    const dropPoison = async (key: string): Promise<void> => {
      const poison = (await openLetters(key, 'order-view')).find(({ kind }) => kind === 'undecodable');
      if (!poison) throw new Error('There is no poison');
      await admin.drop({ by: 'ids', places: [poison.place] }, forReal);
    };

    it('comes back in order, once what is in its way is dropped; others count it once', async () => {
      const key = 'o-parked';
      await send(key, Buffer.from('poison'));
      await send(key, await order(key).created());
      const last = await send(key, await order(key).paid());
      await parkedWith(key, 3);
      await passed('order-events', last);
      expect((await openLetters(key, 'order-view')).map(({ kind }) => kind)).to.deep.equal([
        'undecodable',
        'parked',
        'parked',
      ]);
      const [, second] = await openLetters(key, 'order-view');
      if (!second) throw new Error('no letter');
      const alone = await admin.replay({ by: 'ids', places: [second.place] }, forReal);
      expect(alone, 'not on its own').to.include({ outcome: 'refused' });

      expect(await replayKey(key)).to.include({ outcome: 'replayed' });
      await eventually(async () => {
        const letters = await openLetters(key, 'order-view');
        expect(letters.map(({ kind, replays }) => [kind, replays])).to.deep.equal([
          ['undecodable', 1],
          ['parked', 1],
          ['parked', 1],
        ]);
      }, patient);
      expect(await recordsOf(key), 'the poison holds it still').to.equal(3);
      expect(await statusOf(key)).to.equal(undefined);

      await dropPoison(key);
      expect(await recordsOf(key)).to.equal(2);
      expect(await replayKey(key)).to.include({ outcome: 'replayed' });
      await eventually(async () => expect(await statusOf(key)).to.equal('paid'), patient);
      await parkedWith(key, 0);
      expect(await openLetters(key, 'order-view')).to.deep.equal([]);
      expect((await statisticOf(`bought-in-${key}`)).sales).to.equal(2);
    });

    it('goes on at the end, also when one of its records came twice', async () => {
      const key = 'o-twice';
      const created = await order(key).created();
      await send(key, Buffer.from('poison'));
      await send(key, created);
      await send(key, created);
      await parkedWith(key, 3);
      await dropPoison(key);
      await eventually(async () => {
        await replayKey(key);
        expect(await recordsOf(key)).to.equal(0);
      }, patient);
      await send(key, await order(key).paid());
      await eventually(async () => expect(await statusOf(key)).to.equal('paid'), patient);
      // A process that did not know yet that the key goes on may have written one more letter before it found out.
      await replayKey(key);
      expect(await openLetters(key, 'order-view')).to.deep.equal([]);
    });
  });
});
