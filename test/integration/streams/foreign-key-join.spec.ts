import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import type { Message } from 'kafkajs';
import { openAdapters } from '../../../src/app/adapters.ts';
import { startProjector } from '../../../src/app/start-projector.ts';
import { orderId, paymentId, productId, userId } from '../../../src/domain/ids.ts';
import { createMetricRegistry } from '../../../src/metrics/metric-registry.ts';
import { measureStreams } from '../../../src/metrics/streams-metrics.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { type EnvelopeOf, type EnvelopeStream, ofEvent } from '../../../src/projections/of-event.ts';
import { rekeyedThrough } from '../../../src/projections/rekeyed.ts';
import type { RowTable } from '../../../src/streams/tables.ts';
import { type Topology, topology } from '../../../src/streams/topology.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { startTestApp } from '../../support/running-app.ts';
import { appliedBy, openShopTraffic, type ShopTraffic } from '../../support/shop-traffic.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace, type Workspace } from '../../support/stack.ts';

const patience = { timeoutMs: 180_000 };

const viewTable = {
  table: 'spec_payment_view',
  keyColumn: 'payment_id',
  columns: ['status', 'order_id', 'buyer', 'order_status'],
} as const satisfies RowTable;

interface PaymentRow {
  readonly status: string;
  readonly order_id: string;
  readonly buyer: string | null;
  readonly order_status: string | null;
}

const isPaid = ofEvent('OrderPaid');

/** Payments lie by their own ids, orders by theirs: each payment with its order's buyer and status. */
const paymentView = (from: {
  readonly orderEvents: EnvelopeStream;
  readonly paymentEvents: EnvelopeStream;
  readonly rekeyed: string;
}): Topology =>
  topology(
    {
      name: 'payment-view',
      version: 1,
      onFailure: { retries: 3, backoffMs: 100, afterRetries: 'park-key' },
      repartition: rekeyedThrough(from.rekeyed),
    },
    (t) => {
      const orders = t
        .stream({ ...from.orderEvents, key: 'orderId' })
        .map((event) => {
          const { data } = event as EnvelopeOf<'OrderCreated' | 'OrderPaid'>;
          return { buyer: data.userId as string, status: isPaid(event) ? 'paid' : 'created' };
        })
        .toTable('orders');
      const payments = t
        .stream({ ...from.paymentEvents, key: 'paymentId' })
        .map((event) => {
          const { data } = event as EnvelopeOf<'PaymentCreated' | 'PaymentPaid'>;
          return { of: data.orderId as string, status: ofEvent('PaymentPaid')(event) ? 'paid' : 'created' };
        })
        .toTable('payments');
      payments
        .leftJoin(
          orders,
          ({ of }) => of,
          ({ of, status }, order): PaymentRow => ({
            status,
            order_id: of,
            buyer: order?.buyer ?? null,
            order_status: order?.status ?? null,
          }),
          { name: 'payment-orders', through: 'payment-orders' },
        )
        .toStream()
        .groupByKey()
        .aggregate<PaymentRow | null>('payment-view', {
          initial: null,
          fold: (_, row) => row,
          table: viewTable,
        });
    },
  );

describe('tables joined by a foreign key, on real servers', function () {
  this.timeout(400_000);
  const workspace = useWorkspace({ STREAMS_RETRY_DELAY_MS: '100', STREAMS_POLL_RECORDS_MAX: '50' });
  let space: Workspace;
  let db: Database;
  let traffic: ShopTraffic;
  const expected = new Map<string, PaymentRow>();
  const sent: { readonly topic: 'order-events' | 'payment-events'; readonly messages: Message[] }[] = [];

  before(async () => {
    space = workspace();
    db = openTestDatabase(space, 3);
    await db.execute({
      name: 'spec-create-payment-view',
      text: `create table spec_payment_view
             (payment_id text primary key, status text not null, order_id text not null, buyer text, order_status text)`,
    });
    traffic = await openShopTraffic(space);
    space.closeAtEnd(() => traffic.close());
    await startTestApp(space, 'relay');
  });

  const start = async () => {
    const adapters = openAdapters(space.config, space.endpoints, silentLog());
    const projector = await startProjector({
      adapters,
      cache: { forget: async () => {} },
      config: space.config,
      databaseUrl: space.endpoints.databaseUrl,
      observer: measureStreams(createMetricRegistry()),
      log: silentLog(),
      topologies: [
        paymentView({
          orderEvents: { topic: space.unique('order-events') },
          paymentEvents: { topic: space.unique('payment-events') },
          rekeyed: space.unique('rekeyed-events'),
        }),
      ],
    });
    let stopped: Promise<void> | undefined;
    const stop = (): Promise<void> => {
      stopped ??= projector.stop().then(() => adapters.database.close());
      return stopped;
    };
    space.closeAtEnd(stop);
    return { stop };
  };

  const write = async (topic: 'order-events' | 'payment-events', messages: Message[]): Promise<void> => {
    sent.push({ topic, messages });
    await traffic.writeRaw(topic, messages);
  };

  /** Orders with two payments each; some are paid, some never appear, and who comes first is left to chance. */
  const trade = async (orders: number): Promise<void> => {
    const [orderMessages, paymentMessages]: [Message[], Message[]] = [[], []];
    for (let index = 0; index < orders; index++) {
      const id = randomUUID();
      const buyer = `buyer-${index}`;
      const facts = {
        orderId: orderId(id),
        userId: userId(buyer),
        items: [{ productId: productId('p'), quantity: 1, unitPriceMinor: 100 }],
        total: { amountMinor: 100, currency: 'EUR' },
      };
      const isKnown = index % 5 > 0;
      const isOrderPaid = isKnown && index % 2 === 0;
      const payments = [paymentId(randomUUID()), paymentId(randomUUID())];
      if (isKnown)
        orderMessages.push(
          traffic.framed({ type: 'OrderCreated', ...facts }, { aggregateId: id, version: 1 }),
        );
      if (isOrderPaid)
        orderMessages.push(
          traffic.framed(
            { type: 'OrderPaid', ...facts, paymentId: payments[0] ?? paymentId('p') },
            { aggregateId: id, version: 2 },
          ),
        );
      for (const [number, payment] of payments.entries()) {
        const isPaymentPaid = isOrderPaid && number === 0;
        const ofPayment = { paymentId: payment, orderId: orderId(id), userId: userId(buyer) };
        const amount = { amount: { amountMinor: 100, currency: 'EUR' }, method: 'card' };
        for (const [version, type] of (['PaymentCreated', 'PaymentPaid'] as const).entries()) {
          if (type === 'PaymentPaid' && !isPaymentPaid) continue;
          paymentMessages.push(
            traffic.framed({ type, ...ofPayment, ...amount }, { aggregateId: payment, version: version + 1 }),
          );
        }
        expected.set(payment, {
          status: isPaymentPaid ? 'paid' : 'created',
          order_id: id,
          buyer: isKnown ? buyer : null,
          order_status: isKnown ? (isOrderPaid ? 'paid' : 'created') : null,
        });
      }
    }
    await Promise.all([write('payment-events', paymentMessages), write('order-events', orderMessages)]);
  };

  const found = async (): Promise<Record<string, PaymentRow>> => {
    const rows = await db.execute<PaymentRow & { id: string }>({
      name: 'spec-payment-view',
      text: 'select payment_id as id, status, order_id, buyer, order_status from spec_payment_view order by 1',
    });
    return Object.fromEntries(rows.map(({ id, ...row }) => [id, row]));
  };
  const expectAll = (): Promise<unknown> =>
    eventually(async () => {
      const rows = await found();
      const wrong = [...expected].filter(([id, row]) => JSON.stringify(rows[id]) !== JSON.stringify(row));
      expect(wrong.slice(0, 3).map(([id, row]) => ({ id, wanted: row, got: rows[id] }))).to.deep.equal([]);
      expect(Object.keys(rows)).to.have.length(expected.size);
    }, patience);
  const underWay = async (): Promise<number | undefined> => {
    const [row] = await db.execute<{ derived: number }>({
      name: 'spec-derived',
      text: `select count(*) as derived from outbox where aggregate_type = 'Derived'`,
    });
    return row?.derived;
  };

  it('follow each other through outbox, relay and topic, by projectors that come and go', async () => {
    for (let turn = 0; turn < 3; turn++) {
      const before = await appliedBy(db, 'payment-view');
      await trade(60);
      const projectors = [await start(), ...(turn === 1 ? [await start()] : [])];
      await eventually(async () => {
        expect(await appliedBy(db, 'payment-view')).to.be.greaterThan(before + 50);
      }, patience);
      for (const projector of projectors) await projector.stop();
    }
    await start();
    await expectAll();
  });

  it('are the same when everything is delivered again, and ask for nothing a second time', async () => {
    const asked = await underWay();
    const before = await appliedBy(db, 'payment-view');
    let again = 0;
    for (const { topic, messages } of sent) {
      await traffic.writeRaw(topic, messages);
      again += messages.length;
    }
    await eventually(async () => {
      expect(await appliedBy(db, 'payment-view')).to.be.at.least(before + again);
    }, patience);
    await expectAll();
    expect(await underWay()).to.equal(asked);
  });
});
