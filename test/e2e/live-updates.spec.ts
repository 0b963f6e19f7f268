import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect } from 'chai';
import { type EnvelopeStream, ofEvent } from '../../src/projections/of-event.ts';
import type { CounterTable } from '../../src/streams/tables.ts';
import { type Topology, topology } from '../../src/streams/topology.ts';
import { type EventStream, listenToEvents } from '../support/event-stream.ts';
import { eventually } from '../support/eventually.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { fromJournal, openRebuildTools, projectionOf } from '../support/rebuild-tools.ts';
import { type Client, clientOf, startTestApp } from '../support/running-app.ts';
import { operatorKey, shopperKey, useWorkspace } from '../support/stack.ts';

const patience = { timeoutMs: 60_000 };

const statistic = {
  table: 'product_statistic',
  keyColumn: 'product_id',
  columns: ['like_count', 'sales_count', 'view_count'],
} as const satisfies CounterTable;

/** One process does everything; the others only answer. */
describe('live updates over HTTP', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({
    RATE_LIMIT_FAILED_LOGINS_PER_MINUTE: '0',
    LIVE_BUFFER_BYTES_MAX: '65536',
    LIVE_HEARTBEAT_MS: '200',
    LIVE_INTERVAL_MS: '20',
  });
  let main: Client;
  let elsewhere: Awaited<ReturnType<typeof startTestApp>>;
  const streams: EventStream[] = [];
  before(async () => {
    main = clientOf((await startTestApp(workspace())).url);
    elsewhere = await startTestApp(workspace(), 'api');
  });
  afterEach(async () => {
    for (const stream of streams.splice(0)) {
      stream.close();
      await stream.ended;
    }
  });

  const listen = async (url: string, key: string, lastEventId?: string): Promise<EventStream> => {
    const stream = await listenToEvents(url, { key, lastEventId });
    streams.push(stream);
    expect(stream.status).to.equal(200);
    await stream.hear('ready');
    return stream;
  };
  const newProduct = async (): Promise<string> => {
    const { body } = await main.post('/v1/products', {
      name: 'Mill',
      priceMinor: 5,
      currency: 'EUR',
      stock: 9,
    });
    return body.productId as string;
  };
  const placeOrder = async (userId: string, productId: string): Promise<string> => {
    const { body } = await main.post('/v1/orders', { userId, items: [{ productId, quantity: 1 }] });
    return body.orderId as string;
  };

  it('come to every process: statistics to all, orders to their owner and to operators', async () => {
    const operator = await listen(elsewhere.url, operatorKey);
    const ann = await listen(elsewhere.url, shopperKey('ann'));
    const bob = await listen(main.url, shopperKey('bob'));
    const productId = await newProduct();
    const [ofAnn, ofBob] = [await placeOrder('ann', productId), await placeOrder('bob', productId)];
    await main.post(`/v1/products/${productId}/views`);

    for (const stream of [operator, ann, bob])
      await stream.hear('product-statistic', { productId, viewCount: 1 });
    await ann.hear('order', { orderId: ofAnn, status: 'created', userId: 'ann' });
    await bob.hear('order', { orderId: ofBob });
    for (const orderId of [ofAnn, ofBob]) await operator.hear('order', { orderId });
    await main.post(`/v1/orders/${ofAnn}/cancel`);
    const canceled = await ann.hear('order', { orderId: ofAnn, status: 'canceled' });
    expect((await main.get(`/v1/orders/${ofAnn}`)).body).to.deep.equal(canceled.data);
    await operator.hear('order', { orderId: ofAnn, status: 'canceled' });
    const heardBy = (stream: EventStream) => stream.events.map(({ data }) => data.orderId);
    expect(heardBy(ann)).not.to.include(ofBob);
    expect(heardBy(bob)).not.to.include(ofAnn);
  });

  it('go on in another process where they broke off', async () => {
    const productId = await newProduct();
    const before = await listen(main.url, shopperKey('ann'));
    await main.post(`/v1/products/${productId}/views`);
    await before.hear('product-statistic', { productId, viewCount: 1 });
    before.close();
    await before.ended;
    const { lastEventId } = before;
    const orderId = await placeOrder('ann', productId);
    await main.post(`/v1/products/${productId}/views`);
    await eventually(async () => {
      expect((await main.get(`/v1/products/${productId}/statistic`)).body.viewCount).to.equal(2);
      expect((await main.get(`/v1/orders/${orderId}`)).status).to.equal(200);
    });
    const after = await listen(elsewhere.url, shopperKey('ann'), lastEventId);
    const names = after.events.map(({ event }) => event);
    expect(after.events.find(({ event }) => event === 'ready')?.data).to.deep.equal({ resumed: true });
    expect(names.slice(0, names.indexOf('ready'))).to.include.members(['product-statistic', 'order']);
    expect(after.events.filter(({ data }) => data.productId === productId).at(-1)?.data.viewCount).to.equal(
      2,
    );
  });

  it('say what they cannot resume, and stay alive while nothing happens', async () => {
    const stream = await listenToEvents(elsewhere.url, {
      key: shopperKey('bob'),
      lastEventId: 'from-another-life',
    });
    streams.push(stream);
    await stream.hear('reset', { reason: 'unknown-position' });
    const before = stream.silentBlocks;
    await eventually(() => expect(stream.silentBlocks).to.be.at.least(before + 3));
  });

  it('leave behind who does not listen, without keeping others waiting', async () => {
    const db = openTestDatabase(workspace());
    const run = (name: string, text: string) => db.execute({ name: `spec-${name}`, text });
    await run(
      'many',
      `insert into product_statistic (product_id) select 'slow-' || n from generate_series(1, 4000) n`,
    );
    const deaf = await openDeafSocket(elsewhere.url, shopperKey('bob'));
    const ended = (): Promise<string> => fetch(`${elsewhere.url}/metrics`).then((answer) => answer.text());
    try {
      await eventually(
        async () => {
          await run(
            'change-many',
            `insert into model_change (model, keys)
             select 'product_statistic', array_agg(product_id) from product_statistic where product_id like 'slow-%'`,
          );
          expect(await ended()).to.match(/^millrace_live_ended_total\{reason="too-slow"\} 1$/m);
        },
        { timeoutMs: 120_000 },
      );
      const other = await listen(elsewhere.url, shopperKey('bob'));
      await main.post(`/v1/products/${await newProduct()}/views`);
      await other.hear('product-statistic', { viewCount: 1 });
    } finally {
      deaf.destroy();
    }
  });

  it('are reset when a rebuilt model takes its place and when it is rolled back, in every process', async () => {
    const productId = await newProduct();
    const here = await listen(main.url, shopperKey('ann'));
    const there = await listen(elsewhere.url, operatorKey);
    await main.post(`/v1/products/${productId}/views`);
    for (const stream of [here, there]) await stream.hear('product-statistic', { productId, viewCount: 1 });
    const idBefore = await eventually(() => there.lastEventId ?? expect.fail('no id yet'));

    const viewsOf = async () => (await main.get(`/v1/products/${productId}/statistic`)).body.viewCount;
    const resets = ({ events }: EventStream) => events.filter(({ event }) => event === 'reset');
    const replaced = { event: 'reset', data: { reason: 'model-replaced', kinds: ['statistics'] } };
    const tools = openRebuildTools(workspace());
    await tools.rebuild(countingViewsTwice(), { ...fromJournal, acceptDifferences: true });
    for (const stream of [here, there])
      await eventually(() => expect(resets(stream)).to.deep.equal([replaced]), patience);
    expect(await viewsOf()).to.equal(2);
    await tools.rollBack(projectionOf(workspace(), 'product-statistic'));
    for (const stream of [here, there])
      await eventually(() => expect(resets(stream)).to.deep.equal([replaced, replaced]), patience);
    expect(await viewsOf()).to.equal(1);

    // One reset is as good as two for who was away.
    const back = await listen(main.url, operatorKey, idBefore);
    expect(resets(back)).to.deep.equal([replaced]);
  });

  /** A changed definition: it counts every view twice. */
  const countingViewsTwice = (): Topology => {
    const { name, version, onFailure } = projectionOf(workspace(), 'product-statistic');
    const from = (topic: string): EnvelopeStream => ({ topic: workspace().unique(topic) });
    return topology({ name, version, onFailure }, (t) => {
      t.stream(from('stock-events'))
        .filter(ofEvent('ProductRegistered'))
        .groupBy(({ data }) => data.productId)
        .toRow(statistic);
      for (const topic of ['like-events', 'order-events']) t.stream(from(topic)).peek(() => {});
      t.stream(from('product-view-events'))
        .filter(ofEvent('ProductViewed'))
        .groupBy(({ data }) => data.productId)
        .sum(statistic, 'view_count', () => 2, { action: 'VIEW_COUNT_INCREASED' });
    });
  };

  it('end with the process, which does not wait for those who listen', async () => {
    const stopping = await startTestApp(workspace(), 'api');
    const stream = await listen(stopping.url, shopperKey('ann'));
    await stopping.stop();
    await stream.hear('closed', { reason: 'shutting-down' });
    await stream.ended;
  });
});

/** Asks for events and never reads one. */
const openDeafSocket = async (url: string, key: string): Promise<Socket> => {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.pause();
  socket.write(`GET /events HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  return socket;
};
