import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { useOwnBroker } from '../support/own-broker.ts';
import { useRelayScene } from '../support/relay-scene.ts';
import { startTestApp } from '../support/running-app.ts';

const downMs = 60_000;
/** At first it only does not answer; its connections stand. */
const silentMs = 15_000;
const commandPauseMs = 500;

describe('a broker that is away for a minute', function () {
  this.timeout(600_000);
  const broker = useOwnBroker();
  const { workspace, database, relays, writers, judge } = useRelayScene({
    endpoints: () => ({ kafkaBrokers: broker.addresses() }),
  });

  const countFailed = () =>
    database().execute({ name: 'spec-failed', text: 'select count(*) as rows from outbox_failed' });

  it('costs nothing but time: commands are taken, and all of it arrives in order when it is back', async () => {
    const { client } = await startTestApp(workspace(), 'api');
    const relay = await relays.start({
      KAFKA_REQUEST_TIMEOUT_MS: '3000',
      RELAY_PUBLISH_TIMEOUT_MS: '3000',
      RELAY_BREAKER_CALLS_MIN: '2',
      RELAY_BREAKER_OPEN_MS: '2000',
    });
    const writing = writers.start({ name: 'away', pauseMs: 100 });
    let products = 0;
    const commandsFor = async (timeMs: number): Promise<void> => {
      const end = Date.now() + timeMs;
      do {
        const body = { productId: `p-${++products}`, name: 'Mill', priceMinor: 1, currency: 'EUR', stock: 1 };
        expect((await client.post('/v1/products', body)).status).to.equal(201);
        await sleep(commandPauseMs);
      } while (Date.now() < end);
    };
    await commandsFor(0);

    broker.freeze();
    await commandsFor(silentMs);
    await broker.kill();
    await commandsFor(downMs - silentMs);
    expect(relay.log().map(({ msg }) => msg)).to.include('The circuit to Kafka is open');
    expect(await countFailed()).to.deep.equal([{ rows: 0 }]);

    await broker.start();
    await commandsFor(0);
    await writing.stop();
    await judge().allAccountedFor();
    expect(relay.log().map(({ msg }) => msg)).to.include('The circuit to Kafka is closed');
    expect(relay.child.exitCode).to.equal(null);
  });
});
