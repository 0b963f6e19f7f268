import { expect } from 'chai';
import { type Adapters, openAdapters } from '../../src/app/adapters.ts';
import { readPipelineStatus } from '../../src/app/pipeline-status.ts';
import { relayAdminOf } from '../../src/app/relay-admin.ts';
import type { App } from '../../src/app/start-app.ts';
import { picture } from '../../src/cli/status.ts';
import { topicNames } from '../../src/event-catalogue/topic-name.ts';
import type { Database } from '../../src/postgres/database.ts';
import { physicalTopic } from '../../src/topics/topic-plan.ts';
import { eventually } from '../support/eventually.ts';
import { loseRecords } from '../support/lose-records.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { fromJournal, openRebuildTools, projectionOf, rebuildable } from '../support/rebuild-tools.ts';
import { startTestApp } from '../support/running-app.ts';
import { expectExactModels, openShopLoad, type ShopLoad } from '../support/shop-load.ts';
import { recordingLog, silentLog } from '../support/silent-log.ts';
import { useWorkspace, type Workspace } from '../support/stack.ts';

const patience = { timeoutMs: 60_000 };

describe('a checkpoint that retention overtakes under load', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({
    TOPIC_PARTITIONS: '3',
    STREAMS_RETRY_DELAY_MS: '100',
    STREAMS_HEARTBEAT_INTERVAL_MS: '300',
    STREAMS_SESSION_TIMEOUT_MS: '6000',
  });
  let space: Workspace;
  let db: Database;
  let adapters: Adapters;
  let load: ShopLoad;
  let projector: App;

  const status = () => readPipelineStatus(adapters, space.config, space.endpoints);
  const stoppedPartitions = async (): Promise<ReadonlyMap<string, number>> => {
    const text = await (await fetch(`${projector.url}/metrics`)).text();
    const found = text.matchAll(/^millrace_streams_stopped_partitions\{projection="([^"]+)"\} (\d+)$/gm);
    return new Map([...found].map(([, projection = '', places]) => [projection, Number(places)]));
  };
  /** While nothing is projected, more is sent, and taken out of the topics again. */
  const overtake = async (): Promise<void> => {
    await projector.stop();
    await load.send(40);
    await eventually(async () => expect((await relayAdminOf(db, space.config).status()).pending).to.equal(0));
    const topics = topicNames.map((name) => physicalTopic(space.config.topics.prefix, name));
    expect(await loseRecords(space.endpoints.kafkaBrokers, topics)).to.be.greaterThan(40);
  };

  before(async () => {
    space = workspace();
    db = openTestDatabase(space, 3);
    adapters = openAdapters(space.config, space.endpoints, silentLog());
    space.closeAtEnd(() => adapters.database.close());
    await startTestApp(space, 'relay');
    const { client } = await startTestApp(space, 'api');
    projector = await startTestApp(space, 'projector');
    load = await openShopLoad(client, 11);
    await load.send(40);
    await expectExactModels(db, load);
  });

  it('stops the partition, loudly and with the remedy, and others go on', async () => {
    await overtake();
    const { log, lines } = recordingLog();
    const shopping = load.keepSending(2);
    projector = await startTestApp(space, 'projector', { streams: { fillFromJournal: 'manual' }, log });
    const remedies = () => lines.filter(({ level, msg }) => level === 50 && msg.includes('npx millrace'));
    await eventually(() => {
      const told = new Set(remedies().map(({ projection }) => projection));
      expect(told).to.include.members([...rebuildable, 'product-cache']);
    }, patience);
    for (const { projection, msg } of remedies())
      expect(msg).to.contain(
        projection === 'product-cache'
          ? 'npx millrace topologies accept-loss product-cache'
          : `npx millrace rebuild ${projection}`,
      );
    await eventually(async () => {
      const stopped = await stoppedPartitions();
      for (const name of rebuildable) expect(stopped.get(name), name).to.be.greaterThan(0);
    }, patience);
    const told = await status();
    expect(new Set(told.lost.map(({ projection }) => projection))).to.include.members([
      ...rebuildable,
      'product-cache',
    ]);
    expect(picture(told, new Date())).to.match(
      /stock-level: \d+ records of \S+ are gone.*the partition stands still.*npx millrace rebuild stock-level/,
    );
    await load.send(5);
    await shopping.stop();
    const after = await status();
    expect(
      after.lost.map(({ checkpoint }) => checkpoint),
      'nothing is passed over',
    ).to.deep.equal(told.lost.map(({ checkpoint }) => checkpoint));
  });

  it('is made up for by a rebuild, which is not compared, and the projector goes on by itself', async () => {
    const shopping = load.keepSending(2);
    for (const name of rebuildable) {
      const report = await openRebuildTools(space).rebuild(projectionOf(space, name), fromJournal);
      expect(report, JSON.stringify(report)).to.include({
        outcome: 'swapped',
        comparison: null,
        notCompared: 'records-lost',
      });
    }
    await load.send(10);
    await shopping.stop();
    await expectExactModels(db, load);
    await eventually(async () => {
      const stopped = await stoppedPartitions();
      for (const name of rebuildable) expect(stopped.get(name), name).to.equal(0);
      expect((await status()).lost.map(({ projection }) => projection)).to.not.include.members(rebuildable);
    }, patience);
    for (const name of rebuildable) {
      const report = await openRebuildTools(space).rebuild(projectionOf(space, name), {
        ...fromJournal,
        dryRun: true,
      });
      expect(report.comparison?.shown, name).to.deep.equal([]);
    }
  });

  it('is accepted where the projection cannot be rebuilt, and it goes on', async () => {
    const cache = projectionOf(space, 'product-cache');
    const tools = openRebuildTools(space);
    const tried = await tools.acceptLoss(cache, { dryRun: true });
    expect(tried).to.include({ outcome: 'tried', wasNeverFilled: false });
    expect(tried.lost.length).to.be.greaterThan(0);
    expect((await stoppedPartitions()).get('product-cache'), 'a dry run').to.be.greaterThan(0);

    const accepted = await tools.acceptLoss(cache, { dryRun: false });
    expect(accepted).to.deep.include({ outcome: 'accepted', lost: tried.lost });
    await load.send(20);
    await eventually(async () => {
      const topics = (await status()).topics.filter(({ projection }) => projection === 'product-cache');
      expect(topics.map(({ lag }) => lag)).to.deep.equal(topics.map(() => 0));
      expect((await stoppedPartitions()).get('product-cache')).to.equal(0);
    }, patience);
    expect(await tools.acceptLoss(cache, { dryRun: false })).to.include({ outcome: 'nothing-lost' });
    const audit = await db.execute<{ who: string; target: { lost: readonly unknown[] } }>({
      name: 'spec-loss-audit',
      text: `select who, target from operator_audit where action = 'projections.accept-loss'`,
    });
    expect(audit.map(({ who, target }) => [who, target.lost.length])).to.deep.equal([
      ['spec', tried.lost.length],
    ]);
  });

  it('is made up for without anybody where that is not switched off', async () => {
    await overtake();
    const { log, lines } = recordingLog();
    const shopping = load.keepSending(2);
    projector = await startTestApp(space, 'projector', { log });
    await load.send(20);
    await shopping.stop();
    await expectExactModels(db, load);
    await eventually(async () => {
      const filled = lines.filter(({ msg }) => msg.includes('was filled from the journal'));
      expect(new Set(filled.map(({ projection }) => projection))).to.deep.equal(new Set(rebuildable));
      expect((await status()).fills).to.deep.equal([]);
    }, patience);
    await load.send(10);
    await expectExactModels(db, load);
  });
});
