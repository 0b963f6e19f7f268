import { expect } from 'chai';
import { Kafka, logLevel } from 'kafkajs';
import { relayAdminOf } from '../../src/app/relay-admin.ts';
import { topicNames } from '../../src/event-catalogue/topic-name.ts';
import type { Database } from '../../src/postgres/database.ts';
import { FillNeedsDecision } from '../../src/rebuild/fill-live.ts';
import { findTornBeginning } from '../../src/rebuild/journal-beginning.ts';
import { physicalTopic } from '../../src/topics/topic-plan.ts';
import { eventually } from '../support/eventually.ts';
import { loseRecords } from '../support/lose-records.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { fromJournal, openRebuildTools, projectionOf, rebuildable } from '../support/rebuild-tools.ts';
import { type Client, startTestApp } from '../support/running-app.ts';
import { expectExactModels, openShopLoad, type ShopLoad } from '../support/shop-load.ts';
import { recordingLog } from '../support/silent-log.ts';
import { useWorkspace, type Workspace } from '../support/stack.ts';

interface BuildRow {
  readonly projection: string;
  readonly version: number;
  readonly status: string;
  readonly awaitsFill: boolean;
}

const buildsStatement = {
  name: 'spec-lost-beginning-builds',
  text: `select projection, version, status, awaits_fill as "awaitsFill" from projection_build order by 1, 2`,
};

describe('a projection deployed for the first time when the topics have lost their beginning', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({ STREAMS_RETRY_DELAY_MS: '100', TOPIC_PARTITIONS: '3' });
  const { log, lines } = recordingLog();
  let space: Workspace;
  let db: Database;
  let client: Client;
  let load: ShopLoad;

  const builds = () => db.execute<BuildRow>(buildsStatement);
  const eventTopics = (): readonly string[] =>
    topicNames.map((name) => physicalTopic(space.config.topics.prefix, name));

  before(async () => {
    space = workspace();
    db = openTestDatabase(space, 3);
    client = (await startTestApp(space, 'all', { streams: { projections: 'order-view' } })).client;
    load = await openShopLoad(client, 3);
    await load.send(80);
    await eventually(async () => {
      const [row] = await db.execute<{ placed: number }>({
        name: 'spec-orders-placed',
        text: 'select count(*) as placed from order_view',
      });
      expect(row?.placed).to.equal(load.orders.placed);
    });
  });

  it('was not filled from the journal where the topics had everything', async () => {
    expect(await builds()).to.deep.equal([
      { projection: 'order-view', version: 1, status: 'live', awaitsFill: false },
    ]);
  });

  it('is filled by one of the processes that start, and has the rows of one that was there from the start', async () => {
    const shopping = load.keepSending(2);
    expect(await loseRecords(space.endpoints.kafkaBrokers, eventTopics())).to.be.greaterThan(80);
    await load.send(10);
    await Promise.all([startTestApp(space, 'projector', { log }), startTestApp(space, 'projector', { log })]);
    await load.send(20);
    await shopping.stop();
    await expectExactModels(db, load);
    await eventually(
      async () =>
        expect(
          (await builds()).filter(({ status, awaitsFill }) => status !== 'live' || awaitsFill),
        ).to.deep.equal([]),
      { timeoutMs: 120_000 },
    );
    for (const name of rebuildable) {
      const report = await openRebuildTools(space).rebuild(projectionOf(space, name), {
        ...fromJournal,
        dryRun: true,
      });
      expect(report.comparison?.shown, name).to.deep.equal([]);
      // Nothing was sold out.
      if (name !== 'stock-outage') expect(report.comparison?.rows, name).to.be.greaterThan(0);
    }
  });

  it('has one build then, which is live; the empty one before it is gone', async () => {
    const rows = (await builds()).filter(({ projection }) => projection !== 'product-cache');
    expect(rows.map(({ projection, version, status }) => `${projection} ${version} ${status}`)).to.deep.equal(
      rebuildable.toSorted().map((name) => `${name} ${name === 'order-view' ? 1 : 2} live`),
    );
    expect(rows.every(({ awaitsFill }) => !awaitsFill)).to.equal(true);
  });

  it('counts what comes again once, and lets queries wait for what a command has done', async () => {
    const [productId = ''] = load.expected.keys();
    const viewed = await client.post(`/v1/products/${productId}/views`, {});
    const token = viewed.headers.get('consistency-token') ?? '';
    const counts = load.expected.get(productId);
    if (counts) counts.views++;
    const { status, body } = await client.get(`/v1/products/${productId}/statistic`, {
      'consistency-token': token,
      prefer: 'wait=30',
    });
    expect(status, JSON.stringify(body)).to.equal(200);
    expect(body.viewCount).to.equal(counts?.views);
  });

  it('says loudly what is missing where it cannot be filled, and starts with what is left', async () => {
    const loud = lines.filter(({ level, projection }) => level === 50 && projection === 'product-cache');
    expect(loud).to.have.length.greaterThan(0);
    expect(loud[0]?.msg).to.match(
      /lost the beginning.*cannot be filled from the journal.*starts with what is left/,
    );
    expect(loud[0]?.begins).to.have.length.greaterThan(0);
    const [live] = (await builds()).filter(({ projection }) => projection === 'product-cache');
    expect(live).to.include({ version: 1, status: 'live', awaitsFill: false });
  });
});

describe('a first build that is filled from the journal', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({ STREAMS_RETRY_DELAY_MS: '100', TOPIC_PARTITIONS: '3' });
  let space: Workspace;
  let db: Database;
  let load: ShopLoad;

  const builds = () => db.execute<BuildRow>(buildsStatement);
  const statistic = () => projectionOf(space, 'product-statistic');

  before(async () => {
    space = workspace();
    db = openTestDatabase(space, 3);
    await startTestApp(space, 'relay');
    load = await openShopLoad((await startTestApp(space, 'api')).client, 9);
    await load.send(60);
    const topics = topicNames.map((name) => physicalTopic(space.config.topics.prefix, name));
    await eventually(async () => expect((await relayAdminOf(db, space.config).status()).pending).to.equal(0));
    expect(await loseRecords(space.endpoints.kafkaBrokers, topics)).to.be.greaterThan(60);
  });

  it('waits for an operator where that is the setting, and says what to do', async () => {
    const { log, lines } = recordingLog();
    const app = await startTestApp(space, 'projector', {
      streams: { fillFromJournal: 'manual', projections: 'product-statistic' },
      log,
    });
    await eventually(() => {
      const [line] = lines.filter(({ level }) => level === 50);
      expect(line?.msg).to.match(/npx millrace rebuild product-statistic/);
    });
    await app.stop();
    expect(await builds()).to.deep.equal([
      { projection: 'product-statistic', version: 1, status: 'live', awaitsFill: true },
    ]);
  });

  it('goes on where it was broken off, in another process', async () => {
    const tools = openRebuildTools(space, {
      onProgress: ({ doing }) => {
        if (doing === 'swapping') throw new Error('the process is gone');
      },
    });
    const died = await tools.fill(statistic()).catch((error: Error) => error.message);
    expect(died).to.equal('the process is gone');
    expect((await builds()).map(({ version, status }) => `${version} ${status}`)).to.deep.equal([
      '1 live',
      '2 building',
    ]);
    const report = await openRebuildTools(space).fill(statistic());
    expect(report).to.include({ outcome: 'swapped', isResumed: true, build: 2, notCompared: 'never-filled' });
    expect(await openRebuildTools(space).fill(statistic()), 'nothing is left to fill').to.equal(undefined);
    const refusal = await openRebuildTools(space)
      .rollBack(statistic())
      .catch((error: Error) => error.message);
    expect(refusal).to.match(/no earlier model/);
  });

  it('is left as it is when its process stops', async () => {
    const stopping = new AbortController();
    const tools = openRebuildTools(space, {
      signal: stopping.signal,
      onProgress: ({ doing }) => {
        if (doing === 'replaying') stopping.abort(new Error('stopping'));
      },
    });
    const app = await startTestApp(space, 'projector', {
      streams: { fillFromJournal: 'manual', projections: 'stock-level' },
    });
    await app.stop();
    const stopped = await tools
      .fill(projectionOf(space, 'stock-level'))
      .catch((error: Error) => error.message);
    expect(stopped).to.equal('stopping');
    const left = (await builds()).filter(({ projection }) => projection === 'stock-level');
    expect(left.map(({ status }) => status)).to.deep.equal(['live', 'building']);
  });

  it('is not made for a projection that is to start at the end of the topics', async () => {
    await startTestApp(space, 'projector', {
      streams: { startFrom: 'latest', projections: 'order-payment' },
    });
    const rows = (await builds()).filter(({ projection }) => projection === 'order-payment');
    expect(rows).to.deep.equal([
      { projection: 'order-payment', version: 1, status: 'live', awaitsFill: false },
    ]);
  });

  it('is finished by the next projector that may, with everything that has come since', async () => {
    await load.send(20);
    await startTestApp(space, 'projector');
    await load.send(20);
    await expectExactModels(db, load);
  });
});

describe('a fill from the journal, and ground that is gone', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({ STREAMS_RETRY_DELAY_MS: '100', TOPIC_PARTITIONS: '3' });
  let space: Workspace;
  let db: Database;
  let load: ShopLoad;

  const everythingIsSent = () =>
    eventually(async () => expect((await relayAdminOf(db, space.config).status()).pending).to.equal(0), {
      timeoutMs: 60_000,
    });
  const topics = (): string[] => topicNames.map((name) => physicalTopic(space.config.topics.prefix, name));

  before(async () => {
    space = workspace();
    db = openTestDatabase(space, 3);
    const relay = await startTestApp(space, 'relay');
    load = await openShopLoad((await startTestApp(space, 'api')).client, 17);
    await load.send(40);
    await everythingIsSent();
    await relay.stop();
  });

  it('fills a first build, too, when the topics were made anew and begin at 0', async () => {
    const admin = new Kafka({
      brokers: [...space.endpoints.kafkaBrokers],
      connectionTimeout: 30_000,
      logLevel: logLevel.NOTHING,
    }).admin();
    await admin.connect();
    await admin.deleteTopics({ topics: topics() });
    await eventually(async () => {
      const there = await admin.listTopics();
      expect(there.filter((topic) => topics().includes(topic))).to.deep.equal([]);
    });
    await admin.disconnect();
    // Makes the topics that are missing.
    await startTestApp(space, 'relay');
    const projector = await startTestApp(space, 'projector', {
      streams: { projections: 'product-statistic,order-view,stock-level' },
    });
    await load.send(20);
    await expectExactModels(db, load);
    await projector.stop();
  });

  it('replaces no model by one from a journal that has lost its beginning, unless an operator wants it', async () => {
    const statistic = projectionOf(space, 'product-statistic');
    await load.send(30);
    await everythingIsSent();
    expect(await loseRecords(space.endpoints.kafkaBrokers, topics())).to.be.greaterThan(0);
    expect(await findTornBeginning(db)).to.equal(undefined);
    for (const text of [
      'alter table outbox disable trigger outbox_is_append_only',
      'delete from outbox where id <= (select max(id) / 2 from outbox)',
      'alter table outbox enable trigger outbox_is_append_only',
    ])
      await db.execute({ name: `spec-tear-${text.length}`, text });
    expect(await findTornBeginning(db)).to.be.instanceOf(Date);
    const refusal = await openRebuildTools(space)
      .fill(statistic)
      .catch((error: Error) => error);
    expect(refusal).to.be.instanceOf(FillNeedsDecision);
    expect((refusal as FillNeedsDecision).line).to.match(
      /The journal begins with .*npx millrace rebuild.*accept-loss/,
    );
    const report = await openRebuildTools(space).rebuild(statistic, fromJournal);
    expect(report).to.include({ outcome: 'swapped', notCompared: 'records-lost' });
  });
});
