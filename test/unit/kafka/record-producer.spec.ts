import { expect } from 'chai';
import type { Kafka, ProducerBatch } from 'kafkajs';
import errors from 'kafkajs/src/protocol/error.js';
import { EncodedBatch } from '../../../src/kafka/encoded-batch.ts';
import { isBrokerTrouble, PublishError } from '../../../src/kafka/publish-error.ts';
import { createRecordProducer, type RecordProducer } from '../../../src/kafka/record-producer.ts';

const options = { inFlightMax: 5, produceTimeoutMs: 1000 };

interface FakeCluster {
  partitions: number;
  /** What becomes of the batches of one attempt. */
  answer: (batches: readonly EncodedBatch[]) => void | Promise<void>;
  /** Kafka's number for what is wrong with a topic. */
  readonly topicErrors: Map<string, number>;
  readonly log: string[];
}

/** What of kafkajs the producer leans on: it groups what it is given by partition, with its partitioner asked first. */
const fakeKafka = (cluster: FakeCluster): Kafka => {
  const requireTopics = (topics: readonly string[]): void => {
    for (const topic of topics) {
      const code = cluster.topicErrors.get(topic);
      if (code !== undefined) throw errors.createErrorFromCode(code);
    }
  };
  const admin = () => ({
    connect: async () => undefined,
    disconnect: async () => undefined,
    fetchTopicMetadata: async ({ topics }: { topics: readonly string[] }) => {
      cluster.log.push(`ask ${topics}`);
      requireTopics(topics);
    },
  });
  const producer = (config: { createPartitioner: () => (args: object) => number }) => {
    const partitioner = config.createPartitioner();
    return {
      connect: async () => void cluster.log.push('connect'),
      disconnect: async () => void cluster.log.push('disconnect'),
      sendBatch: async ({ topicMessages = [] }: ProducerBatch) => {
        requireTopics(topicMessages.map(({ topic }) => topic));
        const batches = topicMessages.flatMap(({ topic, messages }) => {
          const partitionMetadata = Array.from({ length: cluster.partitions });
          const groups = messages.reduce<Record<string, unknown>>((all, message) => {
            partitioner({ topic, partitionMetadata, message });
            return all;
          }, {});
          return Object.values(groups).filter((batch) => batch instanceof EncodedBatch);
        });
        if (batches.length === 0) return;
        cluster.log.push(`send ${batches.map(({ topic, length }) => `${topic}:${length}`)}`);
        await cluster.answer(batches);
      },
    };
  };
  return { producer, admin } as unknown as Kafka;
};

const acknowledge = (batches: readonly EncodedBatch[]): void => {
  for (const batch of batches) batch.state = { kind: 'acknowledged' };
};

const records = (count: number) =>
  Array.from({ length: count }, () => ({ key: 'k', value: Buffer.from('v') }));

const outcome = (producer: RecordProducer, ...topics: string[]): Promise<unknown> =>
  producer.send(new Map(topics.map((topic) => [topic, records(2)]))).then(
    () => 'sent',
    (error: unknown) => error,
  );

describe('record producer', () => {
  let cluster: FakeCluster;
  let producer: RecordProducer;

  beforeEach(() => {
    cluster = { partitions: 1, answer: acknowledge, topicErrors: new Map(), log: [] };
    producer = createRecordProducer(fakeKafka(cluster), options);
  });

  afterEach(() => producer.close());

  it('does not believe kafkajs when a batch has no answer', async () => {
    cluster.answer = () => undefined;
    const error = await outcome(producer, 'a');
    expect(error).to.be.instanceOf(PublishError);
    expect(isBrokerTrouble(error)).to.equal(true);
    expect((error as PublishError).failed).to.deep.equal([{ topic: 'a', partition: 0, reason: 'not-sent' }]);
  });

  it('takes a new producer after a failure, and only then', async () => {
    expect(await outcome(producer, 'a')).to.equal('sent');
    expect(await outcome(producer, 'a')).to.equal('sent');
    cluster.answer = () => {
      throw new Error('broken');
    };
    expect(await outcome(producer, 'a')).to.include({ code: 'UNKNOWN' });
    cluster.answer = acknowledge;
    expect(await outcome(producer, 'a')).to.equal('sent');
    expect(cluster.log).to.deep.equal([
      'connect',
      'send a:2',
      'send a:2',
      'send a:2',
      'disconnect',
      'connect',
      'send a:2',
    ]);
  });

  it('sends nothing to a partition that is gone', async () => {
    cluster.partitions = 100;
    expect(await outcome(producer, 'a')).to.equal('sent');
    cluster.partitions = 1;
    expect(await outcome(producer, 'a')).to.include({ code: 'UNKNOWN', retriable: true });
    expect(await outcome(producer, 'a')).to.equal('sent');
  });

  it('holds back whoever waits behind a failure, also through a third', async () => {
    await outcome(producer, 'a', 'b', 'c');
    cluster.answer = (batches) => {
      if (batches.some(({ topic }) => topic === 'a')) throw new Error('broken');
      acknowledge(batches);
    };
    const [failed, heldBack, behindThat, free] = await Promise.all([
      outcome(producer, 'a'),
      outcome(producer, 'a', 'b'),
      outcome(producer, 'b'),
      outcome(producer, 'c'),
    ]);
    expect(failed).to.include({ code: 'UNKNOWN', retriable: false });
    expect(heldBack).to.include({ code: 'UNKNOWN', retriable: true });
    expect(behindThat).to.include({ code: 'UNKNOWN', retriable: true });
    expect(free).to.equal('sent');
    // Who sends after it knows of the failure is not held back by it.
    expect(await outcome(producer, 'b')).to.equal('sent');
  });

  it('closes after what is under way', async () => {
    const sending = outcome(producer, 'a');
    await producer.close();
    expect(await sending).to.equal('sent');
    expect(cluster.log).to.deep.equal(['connect', 'send a:2', 'disconnect']);
  });

  describe('with a send that never comes to an end', () => {
    const never = new Promise<never>(() => {});
    const sendInTime = (...topics: string[]) =>
      producer
        .send(new Map(topics.map((topic) => [topic, records(2)])), { timeoutMs: 30 })
        .catch((error: unknown) => error);

    it('gives the producer up and goes on with a new one', async () => {
      cluster.answer = () => never;
      const error = await sendInTime('a');
      expect(error).to.include({ code: 'BROKER_UNAVAILABLE', retriable: true });
      expect((error as Error).message).to.contain('Kafka did not acknowledge a batch within 30 ms');
      expect((error as PublishError).failed).to.deep.equal([
        { topic: 'a', partition: 0, reason: 'not-sent' },
      ]);
      cluster.answer = acknowledge;
      expect(await outcome(producer, 'a')).to.equal('sent');
      expect(cluster.log).to.deep.equal(['connect', 'send a:2', 'disconnect', 'connect', 'send a:2']);
    });

    it('does not let kafkajs send anything of it later', async () => {
      let stuck: readonly EncodedBatch[] = [];
      cluster.answer = (batches) => {
        stuck = batches;
        return never;
      };
      await sendInTime('a');
      const cut: string[] = [];
      const carrier = { cut: () => void cut.push('cut') };
      const state = { producerId: 1n, producerEpoch: 0, firstSequence: 0 };
      expect(() => stuck[0]?.seal(state, carrier)).to.throw('not to be sent any more');
    });

    it('cuts the way to the broker that has it', async () => {
      const cut: string[] = [];
      cluster.answer = (batches) => {
        for (const batch of batches)
          batch.seal(
            { producerId: 1n, producerEpoch: 0, firstSequence: 0 },
            { cut: () => void cut.push(batch.topic) },
          );
        return never;
      };
      await sendInTime('a', 'b');
      expect(cut).to.deep.equal(['a', 'b']);
    });

    it('sends none of its later rounds when it comes to life again', async () => {
      producer = createRecordProducer(fakeKafka(cluster), { ...options, batchBytesMax: 1 });
      await outcome(producer, 'a');
      let revive = (): void => {};
      cluster.log.length = 0;
      cluster.answer = (batches) =>
        new Promise((resolve) => {
          revive = () => {
            acknowledge(batches);
            resolve();
          };
        });
      await sendInTime('a');
      cluster.answer = acknowledge;
      revive();
      expect(await outcome(producer, 'a')).to.equal('sent');
      const sent = cluster.log.filter((line) => line.startsWith('send'));
      expect(sent).to.deep.equal(['send a:1', 'send a:1', 'send a:1']);
    });

    it('closes all the same', async () => {
      cluster.answer = () => never;
      const sending = sendInTime('a');
      await producer.close();
      expect(await sending).to.include({ code: 'BROKER_UNAVAILABLE' });
    });

    it('holds back whoever waits behind it', async () => {
      cluster.answer = () => never;
      const [stuck, behind] = await Promise.all([sendInTime('a'), sendInTime('a')]);
      expect(stuck).to.include({ code: 'BROKER_UNAVAILABLE', retriable: true });
      expect(behind).to.include({ code: 'BROKER_UNAVAILABLE', retriable: true });
      expect(cluster.log.filter((line) => line.startsWith('send'))).to.have.length(1);
    });
  });

  describe('with a topic that takes nothing', () => {
    const unknownTopic = 3;
    const topicForbidden = 29;

    it('says which one it is', async () => {
      cluster.topicErrors.set('b', unknownTopic);
      const error = await outcome(producer, 'a', 'b');
      expect(error).to.include({ code: 'REFUSED', retriable: false });
      expect([...(error as PublishError).refusedTopics]).to.deep.equal([['b', 'missing']]);
      expect(await outcome(producer, 'a')).to.equal('sent');
    });

    it('does not ask kafkajs again, which would wait for the topic', async () => {
      cluster.topicErrors.set('b', unknownTopic);
      await outcome(producer, 'b');
      const before = cluster.log.length;
      for (let turn = 0; turn < 5; turn++)
        expect(await outcome(producer, 'a', 'b')).to.include({ code: 'REFUSED' });
      expect(cluster.log.slice(before)).to.deep.equal([]);
    });

    it('notices one that may be looked up and not be written to', async () => {
      cluster.answer = (batches) => {
        acknowledge(batches);
        const [forbidden] = batches.filter(({ topic }) => topic === 'b');
        if (!forbidden) return;
        forbidden.state = { kind: 'failed', reason: 'TOPIC_AUTHORIZATION_FAILED', isRefused: true };
        throw errors.createErrorFromCode(topicForbidden);
      };
      const error = (await outcome(producer, 'a', 'b')) as PublishError;
      expect([...error.refusedTopics]).to.deep.equal([['b', 'forbidden']]);
      expect(error.failed.map(({ topic }) => topic)).to.deep.equal(['b']);
    });

    it('takes it for trouble of the brokers when the topic is there after all', async () => {
      cluster.answer = ([batch]) => {
        if (batch) batch.state = { kind: 'failed', reason: 'UNKNOWN_TOPIC_OR_PARTITION', isRefused: true };
        throw errors.createErrorFromCode(unknownTopic);
      };
      const error = await outcome(producer, 'a');
      expect(error).to.include({ code: 'BROKER_UNAVAILABLE', retriable: true });
      expect((error as PublishError).refusedTopics.size).to.equal(0);
    });
  });
});
