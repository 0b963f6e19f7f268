import { expect } from 'chai';
import { relayAdminOf } from '../../src/app/relay-admin.ts';
import { accessFor, type Role, startApp } from '../../src/app/start-app.ts';
import { eventCatalogue } from '../../src/event-catalogue/event-catalogue.ts';
import type { Database } from '../../src/postgres/database.ts';
import { physicalTopic } from '../../src/topics/topic-plan.ts';
import { loseTail } from '../support/broken-logs.ts';
import { eventually } from '../support/eventually.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { useOwnBroker } from '../support/own-broker.ts';
import { clientOf } from '../support/running-app.ts';
import { expectExactModels, openShopLoad, type ShopLoad } from '../support/shop-load.ts';
import { recordingLog } from '../support/silent-log.ts';
import { useWorkspace, type Workspace } from '../support/stack.ts';

const patience = { timeoutMs: 120_000 };
const who = 'cli:ann@host';

describe('a broker that comes back without its unflushed tail', function () {
  this.timeout(300_000);
  const shared = useWorkspace({
    TOPIC_PARTITIONS: '3',
    SCHEMA_REGISTRY_REQUEST_TIMEOUT_MS: '60000',
    STREAMS_RETRY_DELAY_MS: '100',
    STREAMS_HEARTBEAT_INTERVAL_MS: '300',
    STREAMS_SESSION_TIMEOUT_MS: '6000',
    KAFKA_REQUEST_TIMEOUT_MS: '5000',
    RELAY_BREAKER_OPEN_MS: '1000',
  });
  // After the workspace: whatever uses the broker is stopped before it.
  const broker = useOwnBroker();
  const { log, lines } = recordingLog();
  let db: Database;
  let load: ShopLoad;

  const workspace = (): Workspace => {
    const space = shared();
    return { ...space, endpoints: { ...space.endpoints, kafkaBrokers: broker.addresses() } };
  };
  const start = async (role: Role): Promise<string> => {
    const { config, endpoints, closeAtEnd } = workspace();
    const access = await accessFor(config, role);
    const app = await startApp({ config, endpoints, role, access, log });
    closeAtEnd(() => app.stop());
    return app.url;
  };
  before(async () => {
    db = openTestDatabase(workspace(), 3);
    const url = await start('api');
    await start('relay');
    await start('projector');
    load = await openShopLoad(clientOf(url), 11);
  });

  const topics = (): readonly string[] =>
    (['ProductViewed', 'OrderCreated'] as const).map((type) =>
      physicalTopic(workspace().config.topics.prefix, eventCatalogue[type].topic),
    );
  /** Lets the broker die, and what it had last with it. */
  const cutPower = async (batchesKept: (batches: number) => number): Promise<void> => {
    await broker.kill();
    const lost = topics().map((topic) => loseTail(broker.logDir(), topic, batchesKept));
    for (const records of lost) expect(records).to.be.above(0);
    await broker.start();
  };
  const remedy = (): Promise<number> =>
    eventually(() => {
      const loud = lines.filter(({ level, logBreak }) => level === 50 && logBreak === 'truncated');
      expect(loud.map(({ topic }) => topic)).to.include.members([...topics()]);
      return Math.min(...loud.map(({ msg }) => Number(/relay resync --from-id (\d+)/.exec(msg)?.[1])));
    }, patience);
  const resync = (fromId: number) =>
    relayAdminOf(db, workspace().config).resync(fromId, { who, dryRun: false });

  it('gets new events where the lost ones were, and none of them is skipped', async () => {
    await load.send(80);
    await expectExactModels(db, load);
    await cutPower((batches) => Math.floor(batches / 2));
    await load.send(80);
    await remedy();
    // All that was lost had been applied: the models lack nothing, whatever Kafka lacks.
    await expectExactModels(db, load);
  });

  it('has lost what nobody had applied, too, under load: relay resync brings it back', async () => {
    lines.length = 0;
    const shopping = load.keepSending(3);
    await load.send(40);
    await cutPower((batches) => Math.floor((batches * 2) / 3));
    await load.send(40);
    await shopping.stop();
    await resync(await remedy());
    await expectExactModels(db, load);
  });

  it('has lost all of a partition, and everything in it is read that comes then', async () => {
    lines.length = 0;
    await cutPower(() => 0);
    await load.send(60);
    await resync(await remedy());
    await expectExactModels(db, load);
  });
});
