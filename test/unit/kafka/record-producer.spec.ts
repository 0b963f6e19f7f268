import { expect } from 'chai';
import type { Kafka, ProducerBatch } from 'kafkajs';
import { EncodedBatch } from '../../../src/kafka/encoded-batch.ts';
import { isBrokerTrouble, PublishError } from '../../../src/kafka/publish-error.ts';
import { createRecordProducer, type RecordProducer } from '../../../src/kafka/record-producer.ts';

const options = { inFlightMax: 5, requestTimeoutMs: 1000 };

interface FakeCluster {
  partitions: number;
  /** What becomes of the batches of one attempt. */
  answer: (batches: readonly EncodedBatch[]) => void;
  readonly log: string[];
}

/** What of kafkajs the producer leans on: it groups what it is given by partition, with its partitioner asked first. */
const fakeKafka = (cluster: FakeCluster): Kafka => {
  const producer = (config: { createPartitioner: () => (args: object) => number }) => {
    const partitioner = config.createPartitioner();
    return {
      connect: async () => void cluster.log.push('connect'),
      disconnect: async () => void cluster.log.push('disconnect'),
      sendBatch: async ({ topicMessages = [] }: ProducerBatch) => {
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
        cluster.answer(batches);
      },
    };
  };
  return { producer } as unknown as Kafka;
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
    cluster = { partitions: 1, answer: acknowledge, log: [] };
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
});
