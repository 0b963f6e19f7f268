import { expect } from 'chai';
import kafkajs, { CompressionTypes, Kafka, logLevel, type Transaction } from 'kafkajs';
import { createKafka } from '../../../src/kafka/create-kafka.ts';
import { connectTopicAdmin } from '../../../src/kafka/topic-admin.ts';
import {
  connectTopicReader,
  RecordsGone,
  type StoredRecord,
  TopicReadError,
  type TopicReader,
} from '../../../src/kafka/topic-reader.ts';
import { eventually } from '../../support/eventually.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';
import '../../support/zstd-producer.ts';

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
    compression = CompressionTypes.None,
  ): Promise<void> => {
    const producer = client().producer();
    await producer.connect();
    for (const messages of sends) await producer.send({ topic, compression, messages: [...messages] });
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
    const [{ topicId } = {}] = ranges;
    expect(topicId).to.be.a('string');
    expect(ranges).to.deep.equal([
      { topic, partition: 0, start: 0, end: 0, topicId },
      { topic, partition: 1, start: 0, end: 0, topicId },
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
    const failed = await reader
      .read({ topic, partition: 0, start: 0, end: 3 }, { requireAll: true })
      .next()
      .catch((error: unknown) => error);
    expect(failed, 'whoever needs all of them hears of it').to.be.instanceOf(RecordsGone);
    expect((await reader.ranges([topic]))[0]).to.include({ topic, partition: 0, start: 2, end: 3 });
  });

  it('ends where there is nothing, instead of waiting for it', async () => {
    const topic = await createTopic('short');
    await write(topic, [[{ value: 'a' }]]);
    const seen: unknown[] = [];
    for await (const some of reader.read({ topic, partition: 0, start: 5, end: 9 })) seen.push(some);
    for await (const some of reader.read({ topic, partition: 7, start: 0, end: 9 })) seen.push(some);
    expect(seen).to.deep.equal([]);
  });

  it('reads what is packed, with zstd as well as with gzip, and a part of it', async () => {
    const topic = await createTopic('packed');
    const batch = (from: number) =>
      Array.from({ length: 5 }, (_, i) => ({ value: String(from + i), headers: { h: ['1', '2'] } }));
    await write(topic, [batch(0)], CompressionTypes.GZIP);
    await write(topic, [batch(5)], CompressionTypes.ZSTD);
    await write(topic, [batch(10)]);
    const { records, values } = await readAll(topic);
    expect(values).to.deep.equal(Array.from({ length: 15 }, (_, i) => String(i)));
    for (const { headers } of records)
      expect(headers.map(([name, value]) => `${name}=${value}`)).to.deep.equal(['h=1', 'h=2']);
    expect((await readAll(topic, { start: 7, end: 11 })).values).to.deep.equal(['7', '8', '9', '10']);
  });

  it('says which compression it cannot read, and does not call that trouble of the brokers', async () => {
    const topic = await createTopic('lz4');
    const admin = client().admin();
    await admin.connect();
    const name = 'compression.type';
    // The broker packs what comes as the topic wants it.
    await admin.alterConfigs({
      validateOnly: false,
      resources: [
        {
          type: kafkajs.ConfigResourceTypes.TOPIC,
          name: topic,
          configEntries: [{ name, value: 'lz4' }],
        },
      ],
    });
    await admin.disconnect();
    await write(topic, [[{ value: 'a' }, { value: 'b' }]]);
    const failure = await readAll(topic).catch((error: Error) => error);
    expect(failure).to.be.instanceOf(TopicReadError).and.have.property('retriable', false);
    expect(String(failure)).to.include('offsets 0 to 1 are compressed with lz4');
  });

  describe('of transactions', () => {
    const begin = async (topic: string) => {
      const producer = client().producer({
        idempotent: true,
        transactionalId: workspace().unique('t'),
        maxInFlightRequests: 1,
      });
      await producer.connect();
      const send = async (value: string): Promise<Transaction> => {
        const transaction = await producer.transaction();
        await transaction.send({ topic, messages: [{ value }] });
        return transaction;
      };
      return { send, close: () => producer.disconnect() };
    };

    it('gives what was committed, and nothing of what was given up or of their marks', async () => {
      const topic = await createTopic('transactions');
      const { send, close } = await begin(topic);
      await (await send('inside')).commit();
      await (await send('given up')).abort();
      await write(topic, [[{ value: 'outside' }]]);
      await (await send('given up again')).abort();
      await close();
      expect((await readAll(topic)).values).to.deep.equal(['inside', 'outside']);
      expect((await readAll(topic, { start: 3, end: 4 })).values).to.deep.equal([]);
    });

    it('ends before one that is open, however far it is told to go, and tells where', async () => {
      const topic = await createTopic('open');
      await write(topic, [[{ value: 'before' }]]);
      const { send, close } = await begin(topic);
      const open = await send('inside');
      await write(topic, [[{ value: 'behind' }]]);
      expect((await reader.ranges([topic]))[0]).to.include({ topic, partition: 0, start: 0, end: 1 });
      const reading = reader.read({ topic, partition: 0, start: 0, end: 3 });
      expect((await reading.next()).value).to.have.length(1);
      expect(await reading.next()).to.deep.equal({ done: true, value: 1 });
      await open.commit();
      await close();
      await eventually(
        async () => expect((await readAll(topic)).values).to.deep.equal(['before', 'inside', 'behind']),
        { timeoutMs: 30_000 },
      );
    });
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
