import { expect } from 'chai';
import { type Adapters, openAdapters } from '../../src/app/adapters.ts';
import { readPipelineStatus } from '../../src/app/pipeline-status.ts';
import { relayAdminOf } from '../../src/app/relay-admin.ts';
import { type App, accessFor, type Role, startApp } from '../../src/app/start-app.ts';
import { picture } from '../../src/cli/status.ts';
import { eventCatalogue } from '../../src/event-catalogue/event-catalogue.ts';
import type { Database } from '../../src/postgres/database.ts';
import { physicalTopic } from '../../src/topics/topic-plan.ts';
import { recreateTopics, topicEnds } from '../support/broken-logs.ts';
import { eventually } from '../support/eventually.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { clientOf } from '../support/running-app.ts';
import { expectExactModels, openShopLoad, type ShopLoad } from '../support/shop-load.ts';
import { recordingLog, silentLog } from '../support/silent-log.ts';
import { useWorkspace } from '../support/stack.ts';

const patience = { timeoutMs: 120_000 };
const partitions = 3;
const who = 'cli:ann@host';

describe('a topic that is deleted and made anew', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({
    TOPIC_PARTITIONS: String(partitions),
    SCHEMA_REGISTRY_REQUEST_TIMEOUT_MS: '60000',
    STREAMS_RETRY_DELAY_MS: '100',
    STREAMS_HEARTBEAT_INTERVAL_MS: '300',
    STREAMS_SESSION_TIMEOUT_MS: '6000',
  });
  const { log, lines } = recordingLog();
  let db: Database;
  let adapters: Adapters;
  let load: ShopLoad;
  let projector: App;

  const start = async (role: Role): Promise<App> => {
    const { config, endpoints, closeAtEnd } = workspace();
    const access = await accessFor(config, role);
    const app = await startApp({ config, endpoints, role, access, log });
    closeAtEnd(() => app.stop());
    return app;
  };
  before(async () => {
    const { config, endpoints, closeAtEnd } = workspace();
    db = openTestDatabase(workspace(), 3);
    adapters = openAdapters(config, endpoints, silentLog());
    closeAtEnd(() => adapters.database.close());
    const api = await start('api');
    await start('relay');
    projector = await start('projector');
    load = await openShopLoad(clientOf(api.url), 7);
  });

  const topicOf = (type: keyof typeof eventCatalogue): string =>
    physicalTopic(workspace().config.topics.prefix, eventCatalogue[type].topic);
  const recreate = (topics: readonly string[]): Promise<void> =>
    recreateTopics(workspace().endpoints.kafkaBrokers, { topics, partitions });

  /** What the log tells an operator to do. */
  const remedyFor = (topics: readonly string[]): Promise<number> =>
    eventually(() => {
      const loud = lines.filter(({ level, logBreak }) => level === 50 && logBreak === 'recreated');
      expect(loud.map(({ topic }) => topic)).to.include.members([...topics]);
      expect(loud.map(({ projection }) => projection)).to.include('product-statistic');
      const ids = loud.map(({ msg }) => Number(/relay resync --from-id (\d+)/.exec(msg)?.[1]));
      return Math.min(...ids);
    }, patience);
  const resync = (fromId: number) =>
    relayAdminOf(db, workspace().config).resync(fromId, { who, dryRun: false });
  const status = async (): Promise<string> => {
    const { config, endpoints } = workspace();
    return picture(await readPipelineStatus(adapters, config, endpoints), new Date());
  };

  it('while no projector runs is read from its beginning, though it has grown past every checkpoint', async () => {
    const topic = topicOf('ProductViewed');
    await load.send(30);
    await expectExactModels(db, load);
    const checkpoints = await db.execute<{ partition: number; offset: number }>(
      {
        name: 'spec-checkpoints',
        text: `select partition, max(next_offset) as offset from projection_checkpoint where topic = $1 group by partition`,
      },
      [topic],
    );
    await projector.stop();
    lines.length = 0;
    await recreate([topic]);
    for (;;) {
      await load.send(30);
      const ends = await topicEnds(workspace().endpoints.kafkaBrokers, topic);
      if (checkpoints.every(({ partition, offset }) => (ends.get(partition) ?? 0) > offset)) break;
    }
    projector = await start('projector');
    const fromId = await remedyFor([topic]);
    // Nothing had been lost with the old topic: whatever was in it was applied before.
    await expectExactModels(db, load);
    await resync(fromId);
    await load.send(10);
    await expectExactModels(db, load);
  });

  it('under load and a running projector costs nothing that relay resync does not bring back', async () => {
    const topics = [topicOf('ProductViewed'), topicOf('OrderCreated')];
    const shopping = load.keepSending(4);
    await load.send(60);
    lines.length = 0;
    await recreate(topics);
    await load.send(60);
    await shopping.stop();
    const fromId = await remedyFor(topics);
    expect(await status()).to.contain(`relay resync --from-id`);
    await resync(fromId);
    await expectExactModels(db, load);
    await eventually(async () => expect(await status()).not.to.contain('relay resync'), patience);
  });
});
