import { expect } from 'chai';
import { Kafka, logLevel } from 'kafkajs';
import { type Adapters, openAdapters } from '../../src/app/adapters.ts';
import { addPlannedPartitions } from '../../src/app/add-partitions.ts';
import { relayAdminOf } from '../../src/app/relay-admin.ts';
import { accessFor, type Role, startApp } from '../../src/app/start-app.ts';
import type { Config } from '../../src/config/settings.ts';
import { topicNames } from '../../src/event-catalogue/topic-name.ts';
import { OperatorError } from '../../src/operator-error.ts';
import type { Database } from '../../src/postgres/database.ts';
import { physicalTopic } from '../../src/topics/topic-plan.ts';
import { eventually } from '../support/eventually.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { type Client, clientOf } from '../support/running-app.ts';
import { expectExactModels, openShopLoad, type ShopLoad } from '../support/shop-load.ts';
import { recordingLog, silentLog } from '../support/silent-log.ts';
import { useWorkspace } from '../support/stack.ts';

const patience = { timeoutMs: 120_000 };
const who = 'cli:ann@host';

describe('partitions that are added under load', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({
    TOPIC_PARTITIONS: '3',
    STREAMS_RETRY_DELAY_MS: '100',
    STREAMS_HEARTBEAT_INTERVAL_MS: '300',
    STREAMS_SESSION_TIMEOUT_MS: '6000',
  });
  const { log, lines } = recordingLog();
  let db: Database;
  let adapters: Adapters;
  let shop: Client;
  let load: ShopLoad;

  const start = async (role: Role): Promise<string> => {
    const { config, endpoints, closeAtEnd } = workspace();
    const access = await accessFor(config, role);
    const app = await startApp({ config, endpoints, role, access, log });
    closeAtEnd(() => app.stop());
    return app.url;
  };
  before(async () => {
    const { config, endpoints, closeAtEnd } = workspace();
    db = openTestDatabase(workspace(), 3);
    adapters = openAdapters(config, endpoints, silentLog());
    closeAtEnd(() => adapters.database.close());
    const url = await start('all');
    await start('projector');
    shop = clientOf(url);
    load = await openShopLoad(shop, 5);
  });

  const planned = (partitions: number): Config => {
    const { config } = workspace();
    return { ...config, topics: { ...config.topics, partitions } };
  };
  const add = (partitions: number, options: { dryRun?: boolean; force?: boolean; waitMaxMs?: number } = {}) =>
    addPlannedPartitions(adapters, planned(partitions), {
      dryRun: false,
      force: false,
      waitMaxMs: 60_000,
      ...options,
      who,
      onProgress: () => {},
      signal: new AbortController().signal,
    });
  const topics = (): readonly string[] =>
    topicNames.map((name) => physicalTopic(workspace().config.topics.prefix, name));
  const onAdmin = async <T>(routine: (admin: ReturnType<Kafka['admin']>) => Promise<T>): Promise<T> => {
    const kafka = new Kafka({
      brokers: [...workspace().endpoints.kafkaBrokers],
      connectionTimeout: 30_000,
      logLevel: logLevel.NOTHING,
    });
    const admin = kafka.admin();
    await admin.connect();
    return routine(admin).finally(() => admin.disconnect());
  };
  const partitionCounts = () =>
    onAdmin(async (admin) => {
      const found = await admin.fetchTopicMetadata({ topics: [...topics()] });
      return new Set(found.topics.map(({ partitions }) => partitions.length));
    });

  /** Every event is in all windows of its hour, of which one begins every five minutes. */
  const windowsPerEvent = 12;
  const trendStatement = {
    name: 'spec-trends',
    text: `
      select product_id as product, sum(like_count)::integer as likes, sum(sales_count)::integer as sales,
             sum(view_count)::integer as views
      from product_trend group by product_id having sum(like_count + sales_count + view_count) > 0`,
  };
  const isExact = async (): Promise<void> => {
    await expectExactModels(db, load);
    await eventually(async () => {
      const rows = await db.execute<{ product: string; likes: number; sales: number; views: number }>(
        trendStatement,
      );
      const found = new Map(rows.map(({ product, ...counts }) => [product, counts]));
      for (const [product, { sales, views }] of load.expected)
        expect(found.get(product), product).to.include({
          sales: sales * windowsPerEvent,
          views: views * windowsPerEvent,
        });
    }, patience);
  };
  const topicEnds = () =>
    onAdmin(async (admin) => {
      const found: { topic: string; partition: number; end: number }[] = [];
      for (const topic of topics())
        for (const { partition, high } of await admin.fetchTopicOffsets(topic))
          found.push({ topic, partition, end: Number(high) });
      return found;
    });
  /** Answers with the number of records in the topics, all of which every projection has applied. */
  const everythingIsApplied = () =>
    eventually(async () => {
      expect((await relayAdminOf(db, workspace().config).status()).pending).to.equal(0);
      const ends = await topicEnds();
      const rows = await db.execute<{ topic: string; partition: number; least: number }>({
        name: 'spec-least-applied',
        text: `
          select topic, partition, min(next_offset) as least
          from projection_checkpoint join projection_live using (projection, version) group by topic, partition`,
      });
      const applied = new Map(rows.map(({ topic, partition, least }) => [`${topic}/${partition}`, least]));
      const read = new Set(rows.map(({ topic }) => topic));
      const behind = ends.filter(
        ({ topic, partition, end }) => read.has(topic) && (applied.get(`${topic}/${partition}`) ?? 0) < end,
      );
      expect(behind).to.deep.equal([]);
      return ends.reduce((sum, { end }) => sum + end, 0);
    }, patience);

  it('are not added by a start, which says how they are', async () => {
    const { endpoints, closeAtEnd } = workspace();
    const told = recordingLog();
    const app = await startApp({
      config: planned(6),
      endpoints,
      role: 'relay',
      access: undefined,
      log: told.log,
    });
    closeAtEnd(() => app.stop());
    expect(await partitionCounts()).to.deep.equal(new Set([3]));
    const warnings = told.lines.filter(({ level, msg }) => level === 40 && msg.includes('add-partitions'));
    expect(warnings).to.have.length(1);
    await app.stop();
  });

  it('take keys and all that is kept of them along, and nothing is counted twice or missed', async () => {
    const shopping = load.keepSending(4);
    await load.send(30);
    const tried = await add(6, { dryRun: true });
    expect(tried.topics.map(({ before, partitions }) => [before, partitions])).to.deep.include([3, 6]);
    expect(await partitionCounts(), 'a dry run').to.deep.equal(new Set([3]));

    const { projections } = await add(6);
    expect(await partitionCounts()).to.deep.equal(new Set([6]));
    expect(projections.map(({ projection }) => projection)).to.include.members([
      'order-view',
      'product-trend',
    ]);
    await load.send(30);
    await shopping.stop();
    await isExact();
    const [read] = await db.execute<{ count: number }>({
      name: 'spec-read-in-new',
      text: 'select count(*) as count from projection_checkpoint where partition > 2 and next_offset > 0',
    });
    expect(read?.count, 'new partitions are read').to.be.above(0);
    expect((await add(6)).topics, 'once').to.deep.equal([]);
  });

  it('do not hide what was handled before from events that come again', async () => {
    const recordsBefore = await everythingIsApplied();
    const { rows } = await relayAdminOf(db, workspace().config).resync(1, { who, dryRun: false });
    expect(await everythingIsApplied()).to.be.at.least(recordsBefore + rows);
    await isExact();
  });

  it('stop a projection when somebody else adds them, until the same command has moved what it keeps', async () => {
    const shopping = load.keepSending(2);
    await load.send(10);
    await onAdmin((admin) =>
      admin.createPartitions({ topicPartitions: topics().map((topic) => ({ topic, count: 12 })) }),
    );
    // They are noticed with the next change in the groups at the latest; a process that comes makes one.
    lines.length = 0;
    await start('projector');
    await eventually(() => {
      const loud = lines.filter(({ level, msg }) => level === 50 && msg.includes('topics add-partitions'));
      expect(new Set(loud.map(({ projection }) => projection))).to.include.members(['order-view']);
    }, patience);
    await load.send(10);
    const { projections } = await add(6);
    expect(projections[0]?.topics[0]).to.include({ before: 6, partitions: 12 });
    await shopping.stop();
    await isExact();
  });

  it('are refused while a projection is behind, and the relay goes on', async () => {
    await everythingIsApplied();
    const product = { name: 'Late', priceMinor: 100, currency: 'EUR', stock: 1 };
    const refusal = await db.transaction(async (tx) => {
      // As long as somebody holds its build, it commits nothing.
      await tx.execute({
        name: 'spec-hold-build',
        text: `select from projection_build where projection = 'stock-level' and status = 'live' for update`,
      });
      expect((await shop.post('/v1/products', product)).status).to.equal(201);
      await eventually(async () =>
        expect((await relayAdminOf(db, workspace().config).status()).pending).to.equal(0),
      );
      return add(24, { waitMaxMs: 5000 }).catch((error: Error) => error);
    });
    expect(refusal).to.be.instanceOf(OperatorError);
    expect((refusal as OperatorError).line)
      .to.contain('stock-level is 1 records behind')
      .and.to.contain('--force');
    expect(await partitionCounts()).to.deep.equal(new Set([12]));
    expect((await relayAdminOf(db, workspace().config).status()).pause).to.equal(null);
  });
});
