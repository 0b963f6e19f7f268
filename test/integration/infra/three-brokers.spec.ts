import { rmSync } from 'node:fs';
import { expect } from 'chai';
import type { EmbeddedStack } from '../../../src/infra/embedded/embedded-stack.ts';
import { eventually } from '../../support/eventually.ts';
import { processesOf } from './processes-of.ts';
import { brokerIds, withAdmin } from './stack-probes.ts';
import { configFor, startOnly, temporaryDataDir } from './stack-settings.ts';

describe('three embedded brokers', function () {
  this.timeout(180_000);
  const dataDir = temporaryDataDir();
  let stack: EmbeddedStack;
  let brokers: readonly string[];

  before(async () => {
    stack = await startOnly(configFor(dataDir, { MILLRACE_BROKERS: '3' }), { kafka: true });
    brokers = stack.endpoints.kafkaBrokers ?? [];
  });
  after(async () => {
    await stack?.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  it('keep three copies, of which two have to confirm', async () => {
    await eventually(async () => expect(await brokerIds(brokers)).to.deep.equal([1, 2, 3]));
    const described = await withAdmin(brokers, async (admin) => {
      await admin.createTopics({ topics: [{ topic: 'copied', numPartitions: 1, replicationFactor: -1 }] });
      return admin.fetchTopicMetadata({ topics: ['copied'] });
    });
    expect(described.topics[0]?.partitions[0]?.replicas.toSorted()).to.deep.equal([1, 2, 3]);
  });

  it('go on with two when one is killed, and take it back', async () => {
    const broker = stack.servers.get('kafka-2');
    await broker?.kill();
    expect(broker?.pid).to.equal(undefined);
    const others = brokers.filter((_, index) => index !== 1);
    await eventually(async () => expect(await brokerIds(others)).to.deep.equal([1, 3]), {
      timeoutMs: 60_000,
    });
    await broker?.start();
    await eventually(async () => expect(await brokerIds(brokers)).to.deep.equal([1, 2, 3]));
  });

  it('leave no process when they are stopped', async () => {
    await stack.stop();
    expect(processesOf(dataDir)).to.deep.equal([]);
  });
});
