import { expect } from 'chai';
import type { Kafka } from 'kafkajs';
import { connectTopicAdmin } from '../../../src/kafka/topic-admin.ts';

const failure = (type: string): Error => Object.assign(new Error(type), { type });
const topic = { topic: 't', partitions: 1, replicationFactor: 1, minInsyncReplicas: 1, retentionMs: 1000 };

describe('topic admin', () => {
  /** A cluster that answers questions about topics with these failures first. */
  const clusterThatFails = (failures: Error[]): { kafka: Kafka; asked: () => number } => {
    let asked = 0;
    const admin = {
      connect: async () => undefined,
      createTopics: async () => true,
      fetchTopicMetadata: async () => {
        asked++;
        const next = failures.shift();
        if (next) throw next;
        return { topics: [] };
      },
    };
    return { kafka: { admin: () => admin } as unknown as Kafka, asked: () => asked };
  };

  it('waits until every broker knows a topic that was just made, and it has leaders', async () => {
    const { kafka, asked } = clusterThatFails([
      failure('UNKNOWN_TOPIC_OR_PARTITION'),
      new Error('Retries exceeded', { cause: failure('LEADER_NOT_AVAILABLE') }),
    ]);
    await (await connectTopicAdmin(kafka)).create([topic]);
    expect(asked()).to.equal(3);
  });

  it('does not wait when it would not help', async () => {
    const { kafka } = clusterThatFails([failure('TOPIC_AUTHORIZATION_FAILED')]);
    const outcome = await (await connectTopicAdmin(kafka)).create([topic]).catch((error: Error) => error);
    expect(outcome).to.be.instanceOf(Error).and.include({ message: 'TOPIC_AUTHORIZATION_FAILED' });
  });
});
