import { expect } from 'chai';
import { Kafka, logLevel } from 'kafkajs';
import { openAdapters } from '../../../src/app/adapters.ts';
import { startProjector } from '../../../src/app/start-projector.ts';
import type { EventEnvelope } from '../../../src/avro/envelope.ts';
import { avroDir, fingerprintOf, parseSchema } from '../../../src/avro/envelope-schema.ts';
import { productId } from '../../../src/domain/ids.ts';
import { appendEvents } from '../../../src/journal/append-events.ts';
import { contentHash } from '../../../src/journal/content-hash.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { type EnvelopeStream, ofEvent } from '../../../src/projections/of-event.ts';
import { readGoldenEvents } from '../../../src/schema-evolution/golden-events.ts';
import { readReleases } from '../../../src/schema-evolution/released-history.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { type Topology, topicsOf, topology } from '../../../src/streams/topology.ts';
import { eventually } from '../../support/eventually.ts';
import { sealed } from '../../support/journal.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { fromJournal, openRebuildTools, projectionOf } from '../../support/rebuild-tools.ts';
import { startTestApp } from '../../support/running-app.ts';
import { expectExactModels, openShopLoad, type ShopLoad, shopModels } from '../../support/shop-load.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace, type Workspace } from '../../support/stack.ts';

const statistic = {
  table: 'product_statistic',
  keyColumn: 'product_id',
  columns: ['like_count', 'sales_count', 'view_count'],
} as const satisfies CounterTable;

describe('the proof of a rebuild', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({ STREAMS_RETRY_DELAY_MS: '100' });
  let space: Workspace;
  let db: Database;
  let load: ShopLoad;
  before(async () => {
    space = workspace();
    db = openTestDatabase(space);
    const { client } = await startTestApp(space);
    load = await openShopLoad(client, 2);
    await load.send(120);
    await expectExactModels(db, load);
  });

  const statisticBy = (
    version: number,
    seen: (t: {
      from(name: string): EnvelopeStream;
    }) => readonly [EnvelopeStream, (event: EventEnvelope) => number],
  ): Topology => {
    const live = projectionOf(space, 'product-statistic');
    const [stream, amount] = seen({ from: (name) => ({ topic: space.unique(name) }) });
    return topology({ name: live.name, version, onFailure: live.onFailure }, (t) => {
      t.stream({ topic: space.unique('stock-events') } as EnvelopeStream)
        .filter(ofEvent('ProductRegistered'))
        .groupBy(({ data }) => data.productId)
        .toRow(statistic);
      for (const topic of ['like-events', 'order-events'])
        t.stream({ topic: space.unique(topic) } as EnvelopeStream).peek(() => {});
      t.stream(stream)
        .filter(ofEvent('ProductViewed'))
        .groupBy(({ data }) => data.productId)
        .sum(statistic, 'view_count', (event) => amount(event), { action: 'VIEW_COUNT_INCREASED' });
    });
  };
  /** Counts every view twice, and neither likes nor sales. */
  const withBug = (version = 1): Topology =>
    statisticBy(version, ({ from }) => [from('product-view-events'), () => 2]);

  it('finds a bug in the projection and stops the swap, with every difference by key', async () => {
    const before = await shopModels(db);
    const report = await openRebuildTools(space).rebuild(withBug(), fromJournal);
    expect(report.outcome).to.equal('stopped');
    const differing = [...load.expected].filter(([, { likes, sales, views }]) => likes + sales + views > 0);
    expect(report.comparison?.differences).to.equal(differing.length);
    expect(
      report.comparison?.shown.map(({ key, live, rebuilt }) => [key, live, rebuilt]),
    ).to.have.deep.members(
      differing.map(([key, { likes, sales, views }]) => [
        key,
        { like_count: likes, sales_count: sales, view_count: views },
        { like_count: 0, sales_count: 0, view_count: 2 * views },
      ]),
    );
    expect(await shopModels(db)).to.deep.equal(before);
    await load.send(10);
    await expectExactModels(db, load);
  });

  it('does not take windows that have expired for differences, and others for what they are', async () => {
    await db.execute({
      name: 'spec-lone-windows',
      text: `insert into product_trend (window_start, product_id, view_count)
             select now() - days * interval '1 day', 'lone', 1 from unnest(array[7, 9]) as days`,
    });
    const trend = projectionOf(space, 'product-trend');
    const { comparison } = await openRebuildTools(space).rebuild(trend, { ...fromJournal, dryRun: true });
    expect(comparison?.differences, 'that of seven days ago, and not that of nine').to.equal(1);
    await db.execute({
      name: 'spec-no-windows',
      text: `delete from product_trend where product_id = 'lone'`,
    });
  });

  it('swaps all the same where the differences are accepted, and can be undone', async () => {
    const tools = openRebuildTools(space);
    const report = await tools.rebuild(withBug(), { ...fromJournal, acceptDifferences: true });
    expect(report.outcome).to.equal('swapped');
    const models = await shopModels(db);
    for (const [productId, { views }] of load.expected)
      expect(models?.statistic?.[productId]).to.deep.equal({ likes: 0, sales: 0, views: 2 * views });
    await tools.rollBack(projectionOf(space, 'product-statistic'));
    await load.send(10);
    await expectExactModels(db, load);
  });

  it('takes events once that are in the journal and not yet in Kafka, when the relay sends them later', async () => {
    await db.execute({
      name: 'spec-pause-relay',
      text: `update relay_control set paused_at = now(), paused_by = 'spec'`,
    });
    await eventually(
      async () => {
        const held = await db.execute({
          name: 'spec-relay-lease',
          text: `select from scheduler_lock where name = 'outbox-relay-main' and locked_until > clock_timestamp()`,
        });
        expect(held).to.have.lengthOf(0);
      },
      { timeoutMs: 120_000 },
    );
    const paused = await shopModels(db);
    await load.send(40);
    const tools = openRebuildTools(space);
    const statisticTopology = projectionOf(space, 'product-statistic');
    // Nothing moves, so that nothing can be proven: the rebuild gives up, and keeps what it has.
    const impatient = {
      ...space,
      config: { ...space.config, rebuild: { ...space.config.rebuild, patienceMs: 1000 } },
    };
    const stuck = await openRebuildTools(impatient)
      .rebuild(statisticTopology, fromJournal)
      .catch((error: Error) => error.message);
    expect(stuck).to.match(/the relay has not sent all events/);
    expect(await shopModels(db)).to.deep.equal(paused);
    await db.execute({
      name: 'spec-resume-relay',
      text: `update relay_control set paused_at = null, paused_by = null`,
    });
    const report = await tools.rebuild(statisticTopology, fromJournal);
    expect(report).to.include({ outcome: 'swapped', isResumed: true });
    expect(report.comparison?.differences).to.equal(0);
    await expectExactModels(db, load);
  });

  it('takes an event once whose transaction was open when the journal was looked at', async () => {
    const statisticTopology = projectionOf(space, 'product-statistic');
    const copied = {
      name: 'spec-copy-view',
      text: `
        insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version, partition_key,
                            request_id, schema_fingerprint, payload, content_hash, occurred_at)
        select event_id, event_type, source, aggregate_type, 'copy of ' || aggregate_id, aggregate_version, partition_key,
               request_id, schema_fingerprint, payload, content_hash, occurred_at
        from outbox where event_type = 'loopers.product.viewed.v1' limit 1`,
    };
    // The same event once more, in a row that nobody can see at first: it counts once, through whichever way it comes.
    await db.transaction(async (tx) => {
      await tx.execute(copied);
      const report = await openRebuildTools(space).rebuild(statisticTopology, {
        ...fromJournal,
        dryRun: true,
      });
      expect(report.comparison?.differences).to.equal(0);
    });
    const report = await openRebuildTools(space).rebuild(statisticTopology, fromJournal);
    expect(report.comparison?.shown).to.deep.equal([]);
    await expectExactModels(db, load);
  });

  it('reads the topics instead of the journal when asked to, as long as they are whole', async () => {
    const order = projectionOf(space, 'order-view');
    const tools = openRebuildTools(space);
    const report = await tools.rebuild(order, { ...fromJournal, from: 'kafka' });
    expect(report).to.include({ outcome: 'swapped', from: 'kafka' });
    expect(report.comparison?.differences).to.equal(0);
    await load.send(10);
    await expectExactModels(db, load);

    const admin = new Kafka({
      brokers: [...space.endpoints.kafkaBrokers],
      connectionTimeout: 30_000,
      logLevel: logLevel.NOTHING,
    }).admin();
    await admin.connect();
    const [topic = ''] = topicsOf(order);
    const [full] = (await admin.fetchTopicOffsets(topic)).filter(({ high }) => Number(high) > 0);
    if (!full) throw new Error('No partition has a record');
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: full.partition, offset: '1' }] });
    await admin.disconnect();
    const refused = await tools
      .rebuild(order, { ...fromJournal, from: 'kafka' })
      .catch((error: Error) => error.message);
    expect(refused).to.match(/Kafka has lost the beginning.*starts at 1/);
    expect(await tools.rebuild(order, fromJournal)).to.include({ outcome: 'swapped' });
  });

  it('refuses what has no read model', async () => {
    const refused = await Promise.resolve()
      .then(() => openRebuildTools(space).rebuild(projectionOf(space, 'product-cache'), fromJournal))
      .catch((error: Error) => error.message);
    expect(refused).to.match(/keeps no read model/);
  });

  it('brings in another version of a projection: the old model serves until the new one has caught up', async () => {
    const { config, endpoints } = space;
    const adapters = openAdapters(config, endpoints, silentLog());
    space.closeAtEnd(() => adapters.database.close());
    const changed = withBug(2);
    const observer = {
      applied: () => {},
      deadLettered: () => {},
      fenced: () => {},
      waiting: () => {},
      paused: () => {},
    };
    const projector = await startProjector({
      adapters,
      cache: { forget: async () => {} },
      config,
      observer,
      log: silentLog(),
      topologies: [changed],
    });
    space.closeAtEnd(() => projector.stop());
    // The processes with the old version go on as if nothing were.
    await load.send(10);
    await expectExactModels(db, load);
    const report = await openRebuildTools(space).rebuild(changed, fromJournal);
    expect(report).to.include({ outcome: 'swapped', comparison: null });
    await load.send(20);
    await eventually(
      async () => {
        const models = await shopModels(db);
        for (const [productId, { views }] of load.expected)
          expect(models?.statistic?.[productId]).to.deep.equal({ likes: 0, sales: 0, views: 2 * views });
      },
      { timeoutMs: 120_000 },
    );
  });

  it('reads events of the past as those that have replaced them', async () => {
    const golden = readGoldenEvents(avroDir).get('loopers.product.registered.v1/1-in-stock.json');
    const release = readReleases(avroDir).find(({ fullName }) => fullName === golden?.record);
    if (!golden || !release) throw new Error('No golden event of v1');
    const payload = Buffer.from(golden.bytes, 'hex');
    const schemaFingerprint = Buffer.from(fingerprintOf(parseSchema(release.json)), 'hex');
    await db.execute(
      {
        name: 'spec-old-schema',
        text: `insert into avro_schema (fingerprint, name, schema) values ($1, $2, $3) on conflict do nothing`,
      },
      [schemaFingerprint, release.fullName, release.json],
    );
    const { aggregateId, id: eventId } = golden.envelope;
    const { eventType } = golden;
    const registered = {
      type: 'ProductRegistered',
      productId: productId(aggregateId),
      name: '',
      price: { amountMinor: 0, currency: 'EUR' },
      stock: 0,
    } as const;
    const row = sealed({ aggregateType: 'Product', aggregateId }, 1, registered);
    const hash = contentHash({ requestId: row.requestId, eventType, payload });
    await appendEvents(db, [{ ...row, eventId, eventType, schemaFingerprint, payload, contentHash: hash }]);

    const stockOf = async (): Promise<unknown> => {
      const [found] = await db.execute<{ price: number; currency: string }>(
        {
          name: 'spec-old-product',
          text: 'select price_minor as price, currency from stock_level where product_id = $1',
        },
        [aggregateId],
      );
      return found;
    };
    const { price } = golden.envelope.data as { price: { amountMinor: number; currency: string } };
    const expected = { price: price.amountMinor, currency: price.currency };
    await eventually(async () => expect(await stockOf()).to.deep.equal(expected), { timeoutMs: 60_000 });
    const report = await openRebuildTools(space).rebuild(projectionOf(space, 'stock-level'), fromJournal);
    expect(report.comparison?.shown).to.deep.equal([]);
    expect(report.outcome).to.equal('swapped');
    expect(await stockOf()).to.deep.equal(expected);
  });
});
