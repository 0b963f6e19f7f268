import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { eventually } from '../support/eventually.ts';
import type { KafkaProxy } from '../support/kafka-proxy.ts';
import { useRelayScene } from '../support/relay-scene.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const seed = 20_260;
const cutsWanted = 40;
/** After so many bytes' arrivals on average. */
const meanBetween = { databaseCuts: 120, brokerCuts: 3 };
const delayMsMax = 15;

describe('two relays on a bad network', function () {
  this.timeout(600_000);
  const { workspace, relays, writers, judge } = useRelayScene();
  const random = seededRandom(seed);
  const databaseProxies: TcpProxy[] = [];
  after(() => Promise.all(databaseProxies.map((proxy) => proxy.close())));

  let isBad = false;
  const cuts = { beforeBroker: 0, beforeRelay: 0, database: 0 };
  const happens = (oneIn: number): boolean => isBad && random() < 1 / oneIn;

  const startRelay = async () => {
    const url = new URL(workspace().endpoints.databaseUrl);
    const database = await startTcpProxy({ host: url.hostname, port: Number(url.port) }, () => ({
      fromServer: async () => {
        if (isBad) await sleep(random() * delayMsMax);
        if (!happens(meanBetween.databaseCuts)) return;
        cuts.database++;
        database.cut();
      },
    }));
    databaseProxies.push(database);
    url.port = String(database.port);
    const relay = await relays.start({ DATABASE_URL: url.href, KAFKA_RETRIES_MAX: '1' });
    makeBad(relay.kafka);
    return relay;
  };

  const makeBad = (kafka: KafkaProxy): void => {
    kafka.hooks.onBytes = async () => {
      if (isBad) await sleep(random() * delayMsMax);
    };
    kafka.hooks.onRecords = () => {
      if (!happens(meanBetween.brokerCuts)) return;
      cuts.beforeBroker++;
      kafka.cut();
    };
    kafka.hooks.onAcknowledgement = () => {
      if (!happens(meanBetween.brokerCuts)) return;
      cuts.beforeRelay++;
      kafka.cut();
    };
  };

  it('lose nothing and keep order, whichever connection breaks at whatever moment', async () => {
    const both = await Promise.all([startRelay(), startRelay()]);
    isBad = true;
    const writing = writers.start({ name: 'shaken' });
    await eventually(
      () => {
        const { beforeBroker, beforeRelay, database } = cuts;
        expect(Math.min(beforeBroker, beforeRelay, database), JSON.stringify(cuts)).to.be.at.least(3);
        expect(beforeBroker + beforeRelay + database).to.be.at.least(cutsWanted);
      },
      { timeoutMs: 180_000, what: 'enough bad luck' },
    );
    isBad = false;
    await writing.stop();
    await judge().allAccountedFor();
    expect(both.map(({ child }) => child.exitCode)).to.deep.equal([null, null]);
  });
});
