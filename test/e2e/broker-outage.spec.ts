import { rmSync } from 'node:fs';
import { expect } from 'chai';
import { type App, accessFor, startApp } from '../../src/app/start-app.ts';
import { resetEmbedded } from '../../src/infra/embedded/reset-embedded.ts';
import {
  type ProvidedInfrastructure,
  provideInfrastructure,
} from '../../src/infra/provide-infrastructure.ts';
import { configFor, temporaryDataDir } from '../integration/infra/stack-settings.ts';
import { eventually } from '../support/eventually.ts';
import { type Client, clientOf } from '../support/running-app.ts';
import { silentLog } from '../support/silent-log.ts';
import { accessEnvironment } from '../support/stack.ts';

describe('with Kafka and the registry stopped', function () {
  this.timeout(180_000);
  const dataDir = temporaryDataDir();
  const config = configFor(dataDir, {
    ...accessEnvironment,
    PORT: '0',
    KAFKA_RETRIES_MAX: '1',
    KAFKA_RETRY_DELAY_MS: '100',
    RELAY_RETRY_DELAY_MS: '200',
  });
  let infrastructure: ProvidedInfrastructure;
  let app: App;
  let client: Client;
  before(async () => {
    infrastructure = await provideInfrastructure(config, { log: silentLog() });
    const access = await accessFor(config, 'all');
    app = await startApp({
      config,
      endpoints: infrastructure.endpoints,
      role: 'all',
      access,
      log: silentLog(),
    });
    client = clientOf(app.url);
  });
  after(async () => {
    await app?.stop();
    await infrastructure?.stop();
    await resetEmbedded(config, { log: silentLog() });
    rmSync(dataDir, { recursive: true, force: true });
  });

  const viewCount = async (): Promise<unknown> =>
    (await client.get('/v1/products/p/statistic')).body.viewCount;

  it('commands are accepted, and published when the servers return', async () => {
    const [kafka, registry] = [infrastructure.servers.get('kafka-1'), infrastructure.servers.get('registry')];
    if (!kafka || !registry) throw new Error('The stack has no broker or no registry');
    await client.post('/v1/products', {
      productId: 'p',
      name: 'Mill',
      priceMinor: 1,
      currency: 'EUR',
      stock: 9,
    });
    await client.post('/v1/products/p/views');
    await eventually(async () => expect(await viewCount()).to.equal(1));

    await Promise.all([kafka.stop(), registry.stop()]);
    for (let view = 0; view < 5; view++) {
      expect((await client.post('/v1/products/p/views')).status).to.equal(201);
    }
    const order = { userId: 'ann', items: [{ productId: 'p', quantity: 1 }] };
    expect((await client.post('/v1/orders', order)).status).to.equal(201);
    expect(await viewCount()).to.equal(1);

    await Promise.all([kafka.start(), registry.start()]);
    await eventually(async () => expect(await viewCount()).to.equal(6), { timeoutMs: 90_000 });
  });
});
