import { expect } from 'chai';
import { Kafka, logLevel } from 'kafkajs';
import { createKafka } from '../../../src/kafka/create-kafka.ts';
import { connectTopicAdmin } from '../../../src/kafka/topic-admin.ts';
import {
  connectTopicReader,
  type StoredRecord,
  TopicReadError,
  type TopicReader,
} from '../../../src/kafka/topic-reader.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

describe('topic reader', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();
  let reader: TopicReader;
  const kafka = () =>
    createKafka({
      brokers: [...workspace().endpoints.kafkaBrokers],
      clientId: 'spec',
      connectTimeoutMs: 5000,
      requestTimeoutMs: 20_000,
      // A broker that is busy takes a while to find out that it leads a new topic.
      retriesMax: 100,
      retryDelayMs: 100,
      log: silentLog(),
    });
  before(async () => {
    reader = await connectTopicReader(kafka());
    workspace().closeAtEnd(() => reader.close());
  });

  const createTopic = async (name: string, partitions = 1): Promise<string> => {
    const topic = workspace().unique(name);
    const admin = await connectTopicAdmin(kafka());
    await admin
      .create([{ topic, partitions, replicationFactor: 1, minInsyncReplicas: 1, retentionMs: 3_600_000 }])
      .finally(() => admin.close());
    return topic;
  };

  const client = () =>
    new Kafka({
      brokers: [...workspace().endpoints.kafkaBrokers],
      connectionTimeout: 30_000,
      logLevel: logLevel.NOTHING,
    });

  const write = async (
    topic: string,
    sends: readonly (readonly {
      value: string | null;
      key?: string;
      partition?: number;
      timestamp?: string;
      headers?: Record<string, string | string[]>;
    }[])[],
  ): Promise<void> => {
    const producer = client().producer();
    await producer.connect();
    for (const messages of sends) await producer.send({ topic, messages: [...messages] });
    await producer.disconnect();
  };

  const readAll = async (topic: string, range: { start?: number; end?: number } = {}) => {
    const records: StoredRecord[] = [];
    const batches: number[] = [];
    for (const whole of await reader.ranges([topic])) {
      for await (const some of reader.read({ ...whole, ...range })) {
        batches.push(some.length);
        records.push(...some);
      }
    }
    return { records, batches, values: records.map(({ value }) => value?.toString() ?? null) };
  };

  it('reads a topic from its first record to its last, and stops', async () => {
    const topic = await createTopic('whole');
    await write(topic, [[{ key: 'k', value: 'a', headers: { h: ['1', '2'], ü: 'ö' } }], [{ value: null }]]);
    const { records } = await readAll(topic);
    expect(records.map(({ offset }) => offset)).to.deep.equal([0, 1]);
    const [first, second] = records;
    expect(first?.key?.toString()).to.equal('k');
    expect(first?.headers.map(([name, value]) => `${name}=${value}`)).to.deep.equal(['h=1', 'h=2', 'ü=ö']);
    expect(second).to.include({ key: null, value: null });
    expect(Math.abs(Date.now() - (first?.timestampMs ?? 0))).to.be.below(600_000);
  });

  it('has no range for a topic that is not there, and an empty one for an empty topic', async () => {
    const topic = await createTopic('empty', 2);
    const ranges = await reader.ranges([workspace().unique('nowhere'), topic]);
    expect(ranges).to.deep.equal([
      { topic, partition: 0, start: 0, end: 0 },
      { topic, partition: 1, start: 0, end: 0 },
    ]);
    expect((await readAll(topic)).values).to.deep.equal([]);
  });

  it('reads a part from the middle of a batch to the middle of another', async () => {
    const topic = await createTopic('part');
    const batch = (from: number) => Array.from({ length: 5 }, (_, i) => ({ value: String(from + i) }));
    await write(topic, [batch(0), batch(5), batch(10)]);
    expect((await readAll(topic, { start: 3, end: 12 })).values).to.deep.equal(
      Array.from({ length: 9 }, (_, i) => String(3 + i)),
    );
  });

  it('brings a large topic in several steps, each once', async () => {
    const topic = await createTopic('large');
    const filler = 'x'.repeat(100_000);
    await write(
      topic,
      Array.from({ length: 12 }, (_, send) =>
        Array.from({ length: 8 }, (_, i) => ({ value: `${send * 8 + i} ${filler}` })),
      ),
    );
    const { records, batches } = await readAll(topic);
    expect(
      records.map(({ value }) => Number.parseInt(value?.toString('utf8', 0, 3) ?? '', 10)),
    ).to.deep.equal(Array.from({ length: 96 }, (_, i) => i));
    expect(batches.length, 'steps').to.be.greaterThan(1);
  });

  it('begins at a time', async () => {
    const topic = await createTopic('times');
    await write(topic, [
      [{ value: 'old', timestamp: '1000' }],
      [{ value: 'young', timestamp: '5000' }],
      [{ value: 'younger', timestamp: '6000' }],
    ]);
    const starts = async (sinceMs: number) =>
      (await reader.ranges([topic], { sinceMs })).map(({ start }) => start);
    expect(await starts(5000)).to.deep.equal([1]);
    expect(await starts(1)).to.deep.equal([0]);
    expect(await starts(7000), 'nothing is that young').to.deep.equal([3]);
  });

  it('goes on after records that were taken away while it read', async () => {
    const topic = await createTopic('shortened');
    await write(topic, [[{ value: 'a' }], [{ value: 'b' }], [{ value: 'c' }]]);
    const admin = client().admin();
    await admin.connect();
    // kafkajs has to be told of the topic before it can find its leader.
    await admin.fetchTopicOffsets(topic);
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '2' }] });
    await admin.disconnect();
    const values: unknown[] = [];
    for await (const some of reader.read({ topic, partition: 0, start: 0, end: 3 }))
      values.push(...some.map(({ value }) => value?.toString()));
    expect(values).to.deep.equal(['c']);
    expect(await reader.ranges([topic])).to.deep.equal([{ topic, partition: 0, start: 2, end: 3 }]);
  });

  it('ends where there is nothing, instead of waiting for it', async () => {
    const topic = await createTopic('short');
    await write(topic, [[{ value: 'a' }]]);
    const seen: unknown[] = [];
    for await (const some of reader.read({ topic, partition: 0, start: 5, end: 9 })) seen.push(some);
    for await (const some of reader.read({ topic, partition: 7, start: 0, end: 9 })) seen.push(some);
    expect(seen).to.deep.equal([]);
  });

  it('passes over what transactions write about themselves', async () => {
    const topic = await createTopic('transactions');
    const producer = client().producer({
      idempotent: true,
      transactionalId: workspace().unique('t'),
      maxInFlightRequests: 1,
    });
    await producer.connect();
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: [{ value: 'inside' }] });
    await transaction.commit();
    await producer.disconnect();
    expect((await readAll(topic)).values).to.deep.equal(['inside']);
  });

  it('says that brokers cannot be reached', async () => {
    const away = createKafka({
      brokers: ['127.0.0.1:1'],
      clientId: 'spec',
      connectTimeoutMs: 500,
      requestTimeoutMs: 1000,
      retriesMax: 1,
      retryDelayMs: 10,
      log: silentLog(),
    });
    const failure = await connectTopicReader(away).then(
      () => undefined,
      (error: Error) => error,
    );
    expect(failure).to.be.instanceOf(TopicReadError);
    expect(failure?.message).to.match(/^Kafka cannot be read: .*ECONNREFUSED/);
  });
});
