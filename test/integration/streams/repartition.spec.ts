import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import type { Message } from 'kafkajs';
import { openAdapters } from '../../../src/app/adapters.ts';
import { startProjector } from '../../../src/app/start-projector.ts';
import { orderId, paymentId, productId, userId } from '../../../src/domain/ids.ts';
import { createMetricRegistry } from '../../../src/metrics/metric-registry.ts';
import { measureStreams } from '../../../src/metrics/streams-metrics.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { type EnvelopeStream, ofEvent } from '../../../src/projections/of-event.ts';
import { rekeyedThrough } from '../../../src/projections/rekeyed.ts';
import type { RowTable } from '../../../src/streams/tables.ts';
import { type Topology, topology } from '../../../src/streams/topology.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { startTestApp } from '../../support/running-app.ts';
import { appliedBy, openShopTraffic, type ShopTraffic } from '../../support/shop-traffic.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace, type Workspace } from '../../support/stack.ts';

const patience = { timeoutMs: 120_000 };
const buyers = Array.from({ length: 20 }, (_, index) => `buyer-${index}`);

const spendingTable = {
  table: 'spec_spending',
  keyColumn: 'user_id',
  columns: ['orders', 'spent_minor'],
} as const satisfies RowTable;

interface Spending {
  readonly orders: number;
  readonly spent_minor: number;
}

/** Orders are partitioned by order; what a buyer has spent has to be added up where the buyer lives. */
const spending = (orderEvents: EnvelopeStream, rekeyed: string): Topology =>
  topology(
    {
      name: 'spending',
      version: 1,
      onFailure: { retries: 3, backoffMs: 100, afterRetries: 'skip-record' },
      repartition: rekeyedThrough(rekeyed),
    },
    (t) => {
      t.stream(orderEvents)
        .filter(ofEvent('OrderPaid'))
        .map(({ data }) => ({ buyer: data.userId as string, amountMinor: data.total.amountMinor }))
        .groupBy(({ buyer }) => buyer, { through: 'by-buyer' })
        .aggregate<Spending>('spending', {
          initial: { orders: 0, spent_minor: 0 },
          fold: ({ orders, spent_minor }, { amountMinor }) => ({
            orders: orders + 1,
            spent_minor: spent_minor + amountMinor,
          }),
          table: spendingTable,
        });
    },
  );

describe('a stream on its way to another key', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({ STREAMS_RETRY_DELAY_MS: '100', STREAMS_POLL_RECORDS_MAX: '50' });
  let space: Workspace;
  let db: Database;
  let traffic: ShopTraffic;
  const expected = new Map<string, Spending>();
  const sent: Message[] = [];
  let distinct = 0;

  before(async () => {
    space = workspace();
    db = openTestDatabase(space, 3);
    await db.execute({
      name: 'spec-create-spending',
      text: `create table spec_spending
             (user_id text primary key, orders bigint not null, spent_minor bigint not null)`,
    });
    traffic = await openShopTraffic(space);
    space.closeAtEnd(() => traffic.close());
    await startTestApp(space, 'relay');
  });

  const startSpending = async () => {
    const adapters = openAdapters(space.config, space.endpoints, silentLog());
    const projector = await startProjector({
      adapters,
      cache: { forget: async () => {} },
      config: space.config,
      observer: measureStreams(createMetricRegistry()),
      databaseUrl: space.endpoints.databaseUrl,
      log: silentLog(),
      topologies: [spending({ topic: space.unique('order-events') }, space.unique('rekeyed-events'))],
    });
    let stopped: Promise<void> | undefined;
    const stop = (): Promise<void> => {
      stopped ??= projector.stop().then(() => adapters.database.close());
      return stopped;
    };
    space.closeAtEnd(stop);
    return { stop };
  };

  /** Paid orders of many buyers, every tenth of them twice. */
  const pay = async (count: number): Promise<void> => {
    const messages: Message[] = [];
    for (let index = 0; index < count; index++) {
      const buyer = buyers[index % buyers.length] as string;
      const id = randomUUID();
      const amountMinor = 100 + index;
      const message = traffic.framed(
        {
          type: 'OrderPaid',
          orderId: orderId(id),
          userId: userId(buyer),
          items: [{ productId: productId('p'), quantity: 1, unitPriceMinor: amountMinor }],
          total: { amountMinor, currency: 'EUR' },
          paymentId: paymentId('payment'),
        },
        { aggregateId: id, version: 2 },
      );
      const { orders, spent_minor } = expected.get(buyer) ?? { orders: 0, spent_minor: 0 };
      expected.set(buyer, { orders: orders + 1, spent_minor: spent_minor + amountMinor });
      messages.push(message, ...(index % 10 === 0 ? [message] : []));
      distinct++;
    }
    sent.push(...messages);
    await traffic.writeRaw('order-events', messages);
  };

  const found = async (): Promise<Record<string, Spending>> => {
    const rows = await db.execute<Spending & { buyer: string }>({
      name: 'spec-spending',
      text: 'select user_id as buyer, orders, spent_minor from spec_spending order by user_id',
    });
    return Object.fromEntries(rows.map(({ buyer, ...own }) => [buyer, own]));
  };

  const untilPassed = (records: number): Promise<unknown> =>
    eventually(async () => expect(await appliedBy(db, 'spending')).to.be.at.least(records), patience);

  it('is counted exactly, through outbox, relay and topic, by projectors that come and go', async () => {
    for (let turn = 0; turn < 3; turn++) {
      const before = await appliedBy(db, 'spending');
      await pay(300);
      const projector = await startSpending();
      await untilPassed(before + 100);
      await projector.stop();
    }
    await startSpending();
    // Each order once on its own topic, some twice; and once again under its buyer.
    await untilPassed(sent.length + distinct);
    expect(await found()).to.deep.equal(Object.fromEntries(expected));
  });

  it('is the same when everything is delivered again', async () => {
    await traffic.writeRaw('order-events', sent);
    await untilPassed(2 * sent.length + distinct);
    expect(await found()).to.deep.equal(Object.fromEntries(expected));
    const [row] = await db.execute<{ derived: number }>({
      name: 'spec-derived',
      text: `select count(*) as derived from outbox where aggregate_type = 'Derived'`,
    });
    expect(row?.derived).to.equal(distinct);
  });
});
