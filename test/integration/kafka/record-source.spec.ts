import { connect as openSocket, type Socket } from 'node:net';
import { expect } from 'chai';
import { CompressionTypes, Kafka, logLevel, type Message } from 'kafkajs';
import { createRecordSource } from '../../../src/kafka/record-source.ts';
import { connectTopicAdmin } from '../../../src/kafka/topic-admin.ts';
import type { RecordSource } from '../../../src/streams/ports.ts';
import type { LogIdentity, RawBatch } from '../../../src/streams/record.ts';
import { recreateTopics } from '../../support/broken-logs.ts';
import { eventually } from '../../support/eventually.ts';
import { keepLines } from '../../support/logged-lines.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';
import '../../support/zstd-producer.ts';

const patience = { timeoutMs: 60_000 };
const partitions = 3;

/** A reader that remembers how far it came, as a projection does in its checkpoints. */
interface Reader {
  readonly source: RecordSource;
  readonly batches: RawBatch[];
  readonly values: () => string[];
  /** What it was given, last. */
  readonly places: () => readonly number[];
  stop(): Promise<void>;
}

describe('record source', function () {
  this.timeout(120_000);
  const workspace = useWorkspace();
  /** Shared by the readers of a group, so that one goes on where another stopped. */
  let checkpoints: Map<number, number>;
  /** Which logs they belong to. */
  let logs: Map<number, LogIdentity | undefined>;
  const readers: Reader[] = [];
  beforeEach(() => {
    checkpoints = new Map();
    logs = new Map();
  });
  afterEach(async () => {
    for (const reader of readers.splice(0)) await reader.stop();
  });

  const kafka = (sockets?: Set<Socket>, onData: (chunk: Buffer) => void = () => {}) =>
    new Kafka({
      brokers: [...workspace().endpoints.kafkaBrokers],
      connectionTimeout: 30_000,
      logLevel: logLevel.NOTHING,
      retry: { retries: 100, initialRetryTime: 50, maxRetryTime: 50, multiplier: 1, factor: 0 },
      ...(sockets && {
        socketFactory: ({ host, port, onConnect }) => {
          const socket = openSocket({ host, port }, onConnect);
          sockets.add(socket.once('close', () => sockets.delete(socket)));
          socket.on('data', onData);
          return socket;
        },
      }),
    });

  const createTopic = async (name: string): Promise<string> => {
    const topic = workspace().unique(name);
    const admin = await connectTopicAdmin(kafka());
    await admin
      .create([{ topic, partitions, replicationFactor: 1, minInsyncReplicas: 1, retentionMs: 3_600_000 }])
      .finally(() => admin.close());
    return topic;
  };

  const write = async (
    topic: string,
    messages: readonly Message[],
    compression: CompressionTypes = CompressionTypes.None,
  ): Promise<void> => {
    // A new topic may lack a leader here and there, and kafkajs then sends all of it again: that must not count.
    const producer = kafka().producer({ idempotent: true, maxInFlightRequests: 1 });
    await producer.connect();
    await producer.send({ topic, messages: [...messages], compression });
    await producer.disconnect();
  };
  const numbered = (from: number, count: number): Message[] =>
    Array.from({ length: count }, (_, index) => ({
      key: `k${from + index}`,
      value: `v${from + index}`,
      partition: (from + index) % partitions,
      headers: { number: String(from + index) },
    }));
  const valuesOf = (messages: readonly Message[]): string[] => messages.map(({ value }) => String(value));

  const read = async (topic: string, client = kafka(), log = silentLog()): Promise<Reader> => {
    const source = createRecordSource(client, {
      groupId: topic,
      topics: [topic],
      startFrom: 'earliest',
      sessionTimeoutMs: 6000,
      heartbeatIntervalMs: 300,
      queueBytesMax: 100_000,
      stallMs: 5000,
      retryDelayMs: 100,
      log,
    });
    const batches: RawBatch[] = [];
    /** Of the readings that count: what was taken before a reassignment and not applied is dropped. */
    let readings = new Map<number, number>();
    let isStopped = false;
    await source.start({
      onAssigned: async (places) => {
        readings = new Map(places.map(({ partition, reading }) => [partition, reading]));
        return places.map(({ partition }) => ({
          topic,
          partition,
          offset: checkpoints.get(partition),
          log: logs.get(partition),
        }));
      },
      onRevoked: () => {
        readings = new Map();
      },
      onGone: () => false,
    });
    const apply = (batch: RawBatch): void => {
      const { partition, reading, fromOffset, nextOffset } = batch;
      if (readings.get(partition) !== reading) return;
      if (!batch.logBreak)
        expect(fromOffset, `partition ${partition}`).to.equal(checkpoints.get(partition) ?? 0);
      batches.push(batch);
      checkpoints.set(partition, nextOffset);
      logs.set(partition, batch.log);
    };
    let trouble: Error | undefined;
    const reading = (async () => {
      while (!isStopped) for (const batch of await source.take({ recordsMax: 50, waitMs: 50 })) apply(batch);
    })().catch((error: Error) => {
      trouble = error;
    });
    const reader: Reader = {
      source,
      batches,
      values: () => {
        if (trouble) throw trouble;
        return batches.flatMap(({ records }) => records.map(({ value }) => String(value)));
      },
      places: () => [...readings.keys()],
      stop: async () => {
        isStopped = true;
        await reading;
        await source.stop();
      },
    };
    readers.push(reader);
    return reader;
  };

  it('gives everything once, each partition in its order, however it is packed', async () => {
    const topic = await createTopic('packed');
    const [plain, gzip, zstd] = [numbered(0, 300), numbered(300, 300), numbered(600, 300)];
    await write(topic, plain);
    await write(topic, gzip, CompressionTypes.GZIP);
    await write(topic, zstd, CompressionTypes.ZSTD);
    const reader = await read(topic);
    const sent = [...plain, ...gzip, ...zstd];
    await eventually(() => expect(reader.values()).to.have.members(valuesOf(sent)), patience);
    for (let partition = 0; partition < partitions; partition++) {
      const own = reader.batches.filter((batch) => batch.partition === partition).flatMap((b) => b.records);
      expect(own.map(({ value }) => String(value))).to.deep.equal(
        valuesOf(sent.filter((message) => message.partition === partition)),
      );
      for (const { key, value, headers } of own)
        expect([String(key).slice(1), String(headers.number)]).to.deep.equal([
          String(value).slice(1),
          String(value).slice(1),
        ]);
    }
  });

  describe('with a connection that damages what it carries', () => {
    const target = numbered(45, 1)[0] as Message;
    const targetBytes = Buffer.from(String(target.value));

    /** Flips a bit of one record on its way, so many times. */
    const damagedTimes = (timesMax: number) => {
      let times = 0;
      const damage = (chunk: Buffer): void => {
        const at = chunk.indexOf(targetBytes);
        if (at < 0 || times >= timesMax) return;
        times++;
        chunk[at] = (chunk[at] as number) ^ 1;
      };
      return { damage, times: () => times };
    };

    it('fetches the batch again, and gives what was written', async () => {
      const topic = await createTopic('damaged-once');
      await write(topic, numbered(0, 90));
      const { damage, times } = damagedTimes(2);
      const { log, lines } = keepLines();
      const reader = await read(topic, kafka(new Set(), damage), log);
      await eventually(() => expect(reader.values()).to.have.members(valuesOf(numbered(0, 90))), patience);
      expect(times()).to.equal(2);
      const told = lines.filter(({ msg }) => msg.includes('is fetched again'));
      expect(told.map(({ level }) => level)).to.deep.equal([40, 40]);
    });

    it('gives up a batch that comes damaged in the same way every time, as one record, and goes on', async () => {
      const topic = await createTopic('damaged-always');
      await write(topic, numbered(0, 90));
      await write(topic, numbered(90, 90));
      const { damage } = damagedTimes(Number.POSITIVE_INFINITY);
      const { log, lines } = keepLines();
      const reader = await read(topic, kafka(new Set(), damage), log);
      const damagedPartition = target.partition;
      const whole = numbered(0, 180).filter(
        ({ partition }, index) => partition !== damagedPartition || index >= 90,
      );
      const sound = () =>
        reader.batches.flatMap(({ records }) =>
          records.filter((one) => !one.damage).map(({ value }) => String(value)),
        );
      await eventually(() => expect(sound()).to.have.members(valuesOf(whole)), patience);
      const given = reader.batches.flatMap(({ records }) => records.filter((one) => one.damage));
      expect(given.map(({ offset }) => offset)).to.deep.equal([0]);
      expect(lines.filter(({ level }) => level === 50).map(({ msg }) => msg)).to.have.length(1);
    });
  });

  it('goes on where it is told to, and not where the group was', async () => {
    const topic = await createTopic('told');
    await write(topic, numbered(0, 90));
    for (let partition = 0; partition < partitions; partition++) checkpoints.set(partition, 20);
    const reader = await read(topic);
    await eventually(() => expect(reader.values()).to.have.length(30), patience);
    reader.source.reportApplied([{ topic, partition: 0, offset: 30 }]);
    await reader.stop();
    checkpoints = new Map();
    const again = await read(topic);
    await eventually(() => expect(again.values()).to.have.members(valuesOf(numbered(0, 90))), patience);
  });

  describe('of a topic that is deleted and made anew', () => {
    const recreate = (topic: string): Promise<void> =>
      recreateTopics(workspace().endpoints.kafkaBrokers, { topics: [topic], partitions });
    const breaksOf = ({ batches }: Reader) =>
      batches.filter(({ logBreak }) => logBreak).map(({ partition, logBreak }) => `${partition} ${logBreak}`);
    const everyPartition = ['0 recreated', '1 recreated', '2 recreated'];

    it('begins each partition anew while it reads', async () => {
      const topic = await createTopic('anew-running');
      await write(topic, numbered(0, 90));
      const reader = await read(topic);
      await eventually(() => expect(reader.values()).to.have.length(90), patience);
      await recreate(topic);
      await write(topic, numbered(90, 60));
      const all = valuesOf(numbered(0, 150));
      await eventually(() => expect(reader.values()).to.have.members(all), patience);
      expect(breaksOf(reader)).to.have.members(everyPartition);
    });

    it('begins each partition anew when it comes back, though they have grown past where it was', async () => {
      const topic = await createTopic('anew-stopped');
      await write(topic, numbered(0, 30));
      const first = await read(topic);
      await eventually(() => expect(first.values()).to.have.length(30), patience);
      await first.stop();
      await recreate(topic);
      const grown = numbered(30, 300);
      await write(topic, grown);
      const second = await read(topic);
      await eventually(() => expect(second.values()).to.have.members(valuesOf(grown)), patience);
      expect(breaksOf(second)).to.have.members(everyPartition);
    });

    it('takes a checkpoint without a log for one of the topic, unless the topic ends before it', async () => {
      const topic = await createTopic('anew-unknown');
      await write(topic, numbered(0, 30));
      checkpoints = new Map([
        [0, 4],
        [1, 10],
        [2, 50],
      ]);
      const reader = await read(topic);
      // Six, none and all of ten records.
      await eventually(() => expect(reader.values()).to.have.length(16), patience);
      expect(breaksOf(reader)).to.deep.equal(['2 truncated']);
    });
  });

  it('leaves out what was never committed', async () => {
    const topic = await createTopic('aborted');
    const producer = kafka().producer({ transactionalId: topic, maxInFlightRequests: 1, idempotent: true });
    await producer.connect();
    for (const [from, commits] of [
      [0, true],
      [30, false],
      [60, true],
    ] as const) {
      const transaction = await producer.transaction();
      await transaction.send({ topic, messages: numbered(from, 30) });
      await (commits ? transaction.commit() : transaction.abort());
    }
    await producer.disconnect();
    const reader = await read(topic);
    await eventually(
      () => expect(reader.values()).to.have.members(valuesOf([...numbered(0, 30), ...numbered(60, 30)])),
      patience,
    );
  });

  it('shares the partitions with those who come, and takes over from those who go', async () => {
    const topic = await createTopic('shared');
    await write(topic, numbered(0, 300));
    const first = await read(topic);
    await eventually(() => expect(first.places()).to.have.length(3), patience);
    const second = await read(topic);
    await eventually(() => {
      expect([...first.places(), ...second.places()]).to.have.members([0, 1, 2]);
      expect(second.places()).not.to.have.length(0);
    }, patience);
    await write(topic, numbered(300, 300));
    const all = () => [...first.values(), ...second.values()];
    await eventually(() => expect(all()).to.have.members(valuesOf(numbered(0, 600))), patience);
    await first.stop();
    await write(topic, numbered(600, 300));
    await eventually(() => expect(all()).to.have.members(valuesOf(numbered(0, 900))), patience);
    expect(second.places()).to.have.members([0, 1, 2]);
  });

  it('loses and repeats nothing when its connections break', async () => {
    const topic = await createTopic('broken');
    const sockets = new Set<Socket>();
    const reader = await read(topic, kafka(sockets));
    for (let turn = 0; turn < 5; turn++) {
      await write(topic, numbered(turn * 200, 200));
      for (const socket of sockets) socket.destroy(Object.assign(new Error('cut'), { code: 'ECONNRESET' }));
    }
    await eventually(() => expect(reader.values()).to.have.members(valuesOf(numbered(0, 1000))), patience);
  });
});
