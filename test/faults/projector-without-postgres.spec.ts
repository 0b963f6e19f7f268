import { rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'chai';
import { type App, startApp } from '../../src/app/start-app.ts';
import { resetEmbedded } from '../../src/infra/embedded/reset-embedded.ts';
import {
  type ProvidedInfrastructure,
  provideInfrastructure,
} from '../../src/infra/provide-infrastructure.ts';
import { configFor, temporaryDataDir } from '../integration/infra/stack-settings.ts';
import { eventually } from '../support/eventually.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { appliedBy, comparable, openShopTraffic, type ShopTraffic } from '../support/shop-traffic.ts';
import { silentLog } from '../support/silent-log.ts';
import type { Workspace } from '../support/stack.ts';
import { readTopic } from '../support/topic-reader.ts';

const downMs = 30_000;
const patience = { timeoutMs: 150_000 };

describe('a projector whose PostgreSQL is away for half a minute', function () {
  this.timeout(400_000);
  const dataDir = temporaryDataDir();
  const config = configFor(dataDir, {
    PORT: '0',
    STREAMS_RETRY_DELAY_MS: '200',
    STREAMS_POLL_RECORDS_MAX: '200',
  });
  let infrastructure: ProvidedInfrastructure;
  let app: App;
  let traffic: ShopTraffic;
  const closings: (() => Promise<void>)[] = [];
  let space: Workspace;
  before(async () => {
    infrastructure = await provideInfrastructure(config, { log: silentLog() });
    space = {
      endpoints: infrastructure.endpoints,
      config,
      unique: (name) => name,
      closeAtEnd: (close) => void closings.push(close),
    };
    traffic = await openShopTraffic(space, 11);
    closings.push(() => traffic.close());
    const { endpoints } = infrastructure;
    app = await startApp({ config, endpoints, role: 'projector', access: undefined, log: silentLog() });
    closings.push(() => app.stop());
  });
  after(async () => {
    for (const close of closings.reverse()) await close();
    await infrastructure?.stop();
    await resetEmbedded(config, { log: silentLog() });
    rmSync(dataDir, { recursive: true, force: true });
  });

  it('waits, sets nothing aside, and then counts exactly', async () => {
    const postgres = infrastructure.servers.get('postgres');
    if (!postgres) throw new Error('The stack has no PostgreSQL');
    const db = openTestDatabase(space, 2);
    await traffic.write(2000);
    await eventually(async () => expect(await appliedBy(db)).to.be.greaterThan(200), patience);

    await postgres.stop();
    await traffic.write(1000);
    await pause(downMs);
    await postgres.start();

    await traffic.write(500);
    await eventually(async () => expect(await appliedBy(db)).to.be.at.least(traffic.written), patience);
    const { found, expected } = await comparable(db, traffic);
    expect(found).to.deep.equal(expected);
    for (const topic of ['like-events', 'order-events', 'product-view-events']) {
      expect(await readTopic(space.endpoints.kafkaBrokers, `${topic}.dlq`), topic).to.deep.equal([]);
    }
  });
});
