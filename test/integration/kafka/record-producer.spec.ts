import { randomBytes } from 'node:crypto';
import { connect as openSocket, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'chai';
import kafkajs, { Kafka, logLevel } from 'kafkajs';
import { createKafka } from '../../../src/kafka/create-kafka.ts';
import { encodeHeaders } from '../../../src/kafka/header-block.ts';
import { isBrokerTrouble, PublishError } from '../../../src/kafka/publish-error.ts';
import {
  createRecordProducer,
  type RecordInParts,
  type RecordProducerOptions,
} from '../../../src/kafka/record-producer.ts';
import { connectTopicAdmin } from '../../../src/kafka/topic-admin.ts';
import { eventually } from '../../support/eventually.ts';
import { startKafkaProxy } from '../../support/kafka-proxy.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';
import { type ReadRecord, readTopic } from '../../support/topic-reader.ts';

const partitions = 3;

describe('record producer', () => {
  const workspace = useWorkspace();

  const connect = (overrides: { brokers?: string[] } = {}): Kafka =>
    createKafka({
      brokers: overrides.brokers ?? [...workspace().endpoints.kafkaBrokers],
      clientId: 'spec',
      connectTimeoutMs: 1000,
      requestTimeoutMs: 10_000,
      retriesMax: 2,
      retryDelayMs: 50,
      log: silentLog(),
    });

  const produce = (options: Partial<RecordProducerOptions> = {}, kafka = connect()) => {
    const producer = createRecordProducer(kafka, { inFlightMax: 5, produceTimeoutMs: 10_000, ...options });
    workspace().closeAtEnd(() => producer.close());
    return producer;
  };

  const createTopic = async (name: string): Promise<string> => {
    const topic = workspace().unique(name);
    const admin = await connectTopicAdmin(connect());
    await admin
      .create([{ topic, partitions, replicationFactor: 1, minInsyncReplicas: 1, retentionMs: 3_600_000 }])
      .finally(() => admin.close());
    return topic;
  };

  const read = (topic: string): Promise<readonly ReadRecord[]> =>
    readTopic(workspace().endpoints.kafkaBrokers, topic);

  const numbered = (count: number, from = 0): RecordInParts[] =>
    Array.from({ length: count }, (_, i) => ({ key: `key-${i % 17}`, value: Buffer.from(String(from + i)) }));

  /** Each key's values in the order of its partition. */
  const byKey = (records: readonly ReadRecord[]): Record<string, number[]> => {
    const values: Record<string, number[]> = {};
    for (const { key, value } of records) {
      values[String(key)] ??= [];
      values[String(key)]?.push(Number(value));
    }
    return values;
  };

  const failureOf = (sending: Promise<void>): Promise<PublishError> =>
    sending.then(
      () => {
        throw new Error('The send succeeded');
      },
      (error: unknown) => {
        if (!(error instanceof PublishError)) throw error;
        return error;
      },
    );

  it('brings records with keys, values and headers to any consumer', async () => {
    const topic = await createTopic('complete');
    const sharedHeaders = encodeHeaders({ ce_specversion: '1.0', ce_source: '/größe' });
    const value = randomBytes(200);
    await produce().send(
      new Map([
        [
          topic,
          [
            { key: 'ключ', value, sharedHeaders, headers: { ce_id: '1', raw: Buffer.from('bytes') } },
            { key: Buffer.from('tombstone'), value: null },
            { key: null, value: Buffer.alloc(0), sharedHeaders },
          ],
        ],
      ]),
    );
    const found = (await read(topic)).toSorted((a, b) => String(a.key).localeCompare(String(b.key)));
    const plain = found.map(({ key, value: bytes, headers }) => ({ key, value: bytes, headers }));
    const shared = { ce_specversion: '1.0', ce_source: '/größe' };
    expect(plain).to.have.deep.members([
      { key: null, value: Buffer.alloc(0), headers: shared },
      { key: 'tombstone', value: null, headers: {} },
      { key: 'ключ', value, headers: { ...shared, ce_id: '1', raw: 'bytes' } },
    ]);
  });

  it('chooses the same partition for a key as kafkajs by itself', async () => {
    const topic = await createTopic('partitions');
    const records = Array.from({ length: 60 }, (_, i) => ({ key: `käy-${i}`, value: Buffer.from('x') }));
    await produce().send(new Map([[topic, records]]));
    const raw = connect().producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner });
    await raw.connect();
    await raw.send({ topic, messages: records }).finally(() => raw.disconnect());
    const found = await read(topic);
    expect(found).to.have.length(120);
    for (const { key } of records)
      expect(new Set(found.filter((one) => one.key === key).map(({ partition }) => partition)).size).to.equal(
        1,
      );
    expect(new Set(found.map(({ partition }) => partition)).size).to.equal(partitions);
  });

  it('keeps the order of each key over many batches and sends that overlap', async () => {
    const topic = await createTopic('ordered');
    const other = await createTopic('ordered-too');
    // Small batches, so that each send takes many requests: sequence numbers and rounds both have to be right.
    const producer = produce({ batchBytesMax: 2000, roundBytesMax: 5000 });
    const sends = Array.from({ length: 20 }, (_, i) =>
      producer.send(
        new Map([
          [topic, numbered(500, i * 500)],
          [other, numbered(50, i * 50)],
        ]),
      ),
    );
    await Promise.all(sends);
    for (const [name, count] of [
      [topic, 10_000],
      [other, 1000],
    ] as const) {
      const found = await read(name);
      expect(found).to.have.length(count);
      for (const values of Object.values(byKey(found)))
        expect(values).to.deep.equal(values.toSorted((a, b) => a - b));
    }
  });

  it('repeats what was cut off without losing, doubling or reordering anything', async () => {
    const topic = await createTopic('cut');
    const sockets = new Set<Socket>();
    let opened = 0;
    const kafka = new Kafka({
      brokers: [...workspace().endpoints.kafkaBrokers],
      logLevel: logLevel.NOTHING,
      retry: { retries: 20, initialRetryTime: 20, maxRetryTime: 20, multiplier: 1, factor: 0 },
      socketFactory: ({ host, port, onConnect }) => {
        const socket = openSocket({ host, port }, onConnect);
        opened++;
        sockets.add(socket.once('close', () => sockets.delete(socket)));
        return socket;
      },
    });
    const producer = produce({ batchBytesMax: 20_000 }, kafka);
    for (let i = 0; i < 40; i++) {
      const sending = producer.send(new Map([[topic, numbered(1000, i * 1000)]]));
      if (i % 4 === 3) {
        // Later at each cut: before the request, in the middle of it, or before its answer.
        await pause(i / 4);
        // As the operating system reports it; kafkajs does not notice a socket that ends without an error.
        for (const socket of sockets) socket.destroy(Object.assign(new Error('cut'), { code: 'ECONNRESET' }));
      }
      await sending;
    }
    const found = await read(topic);
    expect(opened, 'connections').to.be.at.least(10);
    expect(found).to.have.length(40_000);
    for (const values of Object.values(byKey(found)))
      expect(values).to.deep.equal(values.toSorted((a, b) => a - b));
  });

  it('says which record was too large, takes what came before it and nothing of its partition after it', async () => {
    const topic = await createTopic('too-large');
    const producer = produce();
    const records = [
      { key: 'k', value: Buffer.from('1') },
      { key: 'k', value: Buffer.alloc(1_200_000) },
      { key: 'k', value: Buffer.from('3') },
    ];
    const error = await failureOf(producer.send(new Map([[topic, records]])));
    expect(error).to.include({ code: 'RECORD_TOO_LARGE', retriable: false });
    expect(isBrokerTrouble(error)).to.equal(false);
    const [refused, behind] = error.unacknowledged();
    expect(refused).to.deep.include({ topic, reason: 'MESSAGE_TOO_LARGE', isRefused: true, positions: [1] });
    expect(behind).to.deep.include({ topic, reason: 'not-sent', isRefused: false, positions: [2] });
    expect(error.failed).to.deep.equal([
      { topic, partition: refused?.partition, reason: 'MESSAGE_TOO_LARGE' },
    ]);
    expect((await read(topic)).map(({ value }) => String(value))).to.deep.equal(['1']);

    await producer.send(new Map([[topic, records.slice(2)]]));
    expect((await read(topic)).map(({ value }) => String(value))).to.deep.equal(['1', '3']);
  });

  it('blames only the partitions that failed', async () => {
    const topic = await createTopic('one-of-three');
    const before = numbered(100);
    // A topic is there before each of its partitions has a leader that knows of it; a send on its own waits for that.
    await produce().send(new Map([[topic, before]]));
    const records = [...numbered(100), { key: 'key-1', value: Buffer.alloc(1_200_000) }];
    // Without a cut the large record spoils its batch, and the batches of the other partitions go through beside it.
    const error = await failureOf(produce({ batchBytesMax: 5_000_000 }).send(new Map([[topic, records]])));
    expect(error.failed).to.have.length(1);
    const lost = new Set(error.unacknowledged().flatMap(({ positions }) => positions));
    expect(lost.has(100)).to.equal(true);
    const arrived = records.filter((_, position) => !lost.has(position));
    expect((await read(topic)).map(({ value }) => String(value))).to.have.members(
      [...before, ...arrived].map(({ value }) => String(value)),
    );
    expect(arrived).not.to.have.length(0);
  });

  it('lets nothing overtake a send that failed', async () => {
    const topic = await createTopic('overtaken');
    const other = await createTopic('bystander');
    const producer = produce();
    await producer.send(new Map([[topic, numbered(1)]]));
    const [failed, behind, beside] = await Promise.allSettled([
      producer.send(new Map([[topic, [{ key: 'k', value: Buffer.alloc(1_200_000) }]]])),
      producer.send(new Map([[topic, numbered(3)]])),
      producer.send(new Map([[other, numbered(3)]])),
    ]);
    expect(failed.status).to.equal('rejected');
    expect(behind.status === 'rejected' && behind.reason).to.include({ code: 'UNKNOWN', retriable: true });
    expect(beside.status).to.equal('fulfilled');
    expect(await read(topic)).to.have.length(1);
    expect(await read(other)).to.have.length(3);
  });

  it('does not take an unknown topic for broker trouble', async () => {
    const error = await failureOf(produce().send(new Map([[workspace().unique('nowhere'), numbered(1)]])));
    expect(error.code).to.equal('REFUSED');
    expect(isBrokerTrouble(error)).to.equal(false);
  });

  it('says which topic is missing, and waits for it once', async () => {
    const there = await createTopic('there');
    const missing = workspace().unique('created-later');
    const producer = produce();
    const both = new Map([
      [there, numbered(5)],
      [missing, numbered(5)],
    ]);
    const error = await failureOf(producer.send(both));
    expect([...error.refusedTopics]).to.deep.equal([[missing, 'missing']]);
    await producer.send(new Map([[there, numbered(5)]]));
    expect(await read(there)).to.have.length(5);
    const again = await failureOf(producer.send(both));
    expect([...again.refusedTopics.keys()]).to.deep.equal([missing]);
    expect(again.cause, 'kafkajs is not asked again').to.have.property(
      'message',
      `No records are taken in ${missing}`,
    );

    await createTopic('created-later');
    await eventually(() => producer.send(both), { timeoutMs: 60_000 });
    expect(await read(there)).to.have.length(10);
    expect(await read(missing)).to.have.length(5);
  });

  it('notices a topic that is deleted while it writes to it', async () => {
    const topic = await createTopic('deleted');
    const producer = produce();
    await producer.send(new Map([[topic, numbered(5)]]));
    const admin = connect().admin();
    await admin.connect();
    await admin.deleteTopics({ topics: [topic] }).finally(() => admin.disconnect());
    const refused = await eventually(
      async () => {
        const error = await failureOf(producer.send(new Map([[topic, numbered(5)]])));
        expect(error.refusedTopics.get(topic), error.message).to.equal('missing');
        return error;
      },
      { timeoutMs: 60_000 },
    );
    expect(refused).to.include({ code: 'REFUSED', retriable: false });
  });

  describe('with a broker that does not answer', () => {
    /** Through a network of its own, which specs can stop. */
    const connectThrough = async () => {
      const [broker = ''] = workspace().endpoints.kafkaBrokers;
      const proxy = await startKafkaProxy(broker);
      workspace().closeAtEnd(() => proxy.close());
      const kafka = new Kafka({
        brokers: [broker],
        logLevel: logLevel.NOTHING,
        retry: { retries: 20, initialRetryTime: 20, maxRetryTime: 20, multiplier: 1, factor: 0 },
        // Also where the broker says it is to be found.
        socketFactory: ({ onConnect }) => openSocket({ host: '127.0.0.1', port: proxy.port }, onConnect),
      });
      return { proxy, producer: produce({}, kafka) };
    };

    it('gives up at the deadline, sends nothing of it later, and keeps the order', async () => {
      const topic = await createTopic('stuck');
      const { proxy, producer } = await connectThrough();
      await producer.send(new Map([[topic, numbered(100)]]));
      let requests = 0;
      // As a broker that hangs does it: requests lie there and nobody reads them.
      proxy.hooks.onRecords = () => {
        requests++;
        return new Promise<void>(() => {});
      };
      const sent = new Map([[topic, numbered(100, 100)]]);
      const error = await failureOf(producer.send(sent, { timeoutMs: 2000 }));
      expect(error).to.include({ code: 'BROKER_UNAVAILABLE', retriable: true });
      expect(isBrokerTrouble(error)).to.equal(true);
      expect(requests).to.equal(1);
      proxy.heal();
      await producer.send(sent);
      await producer.send(new Map([[topic, numbered(100, 200)]]));
      const found = await read(topic);
      expect(found, 'nothing came from the one that was given up').to.have.length(300);
      for (const values of Object.values(byKey(found)))
        expect(values).to.deep.equal(values.toSorted((a, b) => a - b));
    });

    it('closes all the same', async () => {
      const topic = await createTopic('stuck-at-close');
      const { proxy, producer } = await connectThrough();
      await producer.send(new Map([[topic, numbered(1)]]));
      proxy.hooks.onBytes = () => new Promise<void>(() => {});
      const sending = failureOf(producer.send(new Map([[topic, numbered(1)]]), { timeoutMs: 200 }));
      await producer.close();
      expect(await sending).to.include({ code: 'BROKER_UNAVAILABLE' });
    });
  });

  it('knows broker trouble when nobody answers', async () => {
    const error = await failureOf(
      produce({}, connect({ brokers: ['127.0.0.1:1'] })).send(new Map([['any', numbered(1)]])),
    );
    expect(error).to.include({ code: 'BROKER_UNAVAILABLE', retriable: true });
    expect(isBrokerTrouble(error)).to.equal(true);
  });

  it('leaves other producers of the process as they are', async () => {
    const topic = await createTopic('plain');
    produce();
    const raw = connect().producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner });
    await raw.connect();
    await raw.send({ topic, messages: [{ key: 'k', value: 'v' }] }).finally(() => raw.disconnect());
    expect(await read(topic)).to.have.length(1);
  });

  it('sends nothing when there is nothing', async () => {
    const unreachable = produce({}, connect({ brokers: ['127.0.0.1:1'] }));
    await unreachable.send(new Map());
    await unreachable.send(new Map([['any', []]]));
  });
});
