import { expect } from 'chai';
import { orderId, paymentId, productId, userId } from '../../../src/domain/ids.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { type DeadLetterDesk, openDeadLetterDesk, parkedKeys } from '../../support/dead-letters.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { startTestApp } from '../../support/running-app.ts';
import { openShopTraffic, type ShopTraffic } from '../../support/shop-traffic.ts';
import { useWorkspace } from '../../support/stack.ts';

const forReal = { who: 'cli:ann@desk', dryRun: false, force: false };
const key = 'hot';
const order = {
  orderId: orderId(key),
  userId: userId('ann'),
  items: [{ productId: productId('p'), quantity: 1, unitPriceMinor: 100 }],
  total: { amountMinor: 100, currency: 'EUR' as const },
};

describe('a parked key of which records keep coming', function () {
  this.timeout(240_000);
  const workspace = useWorkspace();
  let db: Database;
  let desk: DeadLetterDesk;
  let traffic: ShopTraffic;
  before(async function () {
    this.timeout(240_000);
    db = openTestDatabase(workspace());
    desk = await openDeadLetterDesk(workspace(), db);
    traffic = await openShopTraffic(workspace());
    workspace().closeAtEnd(() => traffic.close());
    await startTestApp(workspace(), 'projector');
  });

  const recordsParked = async (): Promise<number> =>
    (await parkedKeys(db, 'order-view')).find((parked) => parked.key === key)?.records ?? 0;
  const versionsShown = async (): Promise<readonly number[]> => {
    const [row] = await db.execute<{ history: readonly { version: number }[] }>(
      { name: 'spec-hot-order', text: 'select history from order_view where order_id = $1' },
      [key],
    );
    return row?.history.map(({ version }) => version) ?? [];
  };

  it('is let go by one replay, in order, and nothing is lost or shown twice', async () => {
    let version = 0;
    const write = (): Promise<void> => {
      version++;
      const event =
        version === 1
          ? ({ type: 'OrderCreated', ...order } as const)
          : ({ type: 'OrderPaid', ...order, paymentId: paymentId('x') } as const);
      return traffic.writeRaw('order-events', [traffic.framed(event, { aggregateId: key, version })]);
    };
    await traffic.writeRaw('order-events', [{ key, value: Buffer.from('poison') }]);
    for (let index = 0; index < 10; index++) await write();
    await eventually(async () => expect(await recordsParked()).to.equal(11), { timeoutMs: 60_000 });
    const poison = (await desk.admin.list({ key, kind: 'undecodable', projection: 'order-view', limit: 10 }))
      .letters[0];
    if (!poison) throw new Error('There is no poison');
    await desk.admin.drop({ by: 'ids', places: [poison.letter.place] }, forReal);

    // Further records of the key come between the look at its letters and the moment when they are sent, three times.
    let sends = 0;
    const admin = desk.with({
      openProducer: () => {
        const producer = desk.openProducer();
        return {
          ...producer,
          close: () => producer.close(),
          send: async (records) => {
            if (++sends <= 3) for (let index = 0; index < 5; index++) await write();
            return producer.send(records);
          },
        };
      },
    });
    const report = await admin.replay({ by: 'key', key, projection: 'order-view' }, forReal);
    expect(report).to.include({ outcome: 'replayed', stillParked: 0 });
    expect(await recordsParked()).to.equal(0);
    expect('rounds' in report && report.rounds).to.be.at.least(4);
    const expected = Array.from({ length: version }, (_, index) => index + 1);
    await eventually(async () => expect(await versionsShown()).to.deep.equal(expected));
    expect((await desk.admin.list({ key, limit: 10, projection: 'order-view' })).letters).to.deep.equal([]);
  });
});
