import { randomBytes, randomUUID } from 'node:crypto';
import kafkajs, { CompressionTypes, type Kafka } from 'kafkajs';
import { encodeHeaders } from '../src/kafka/header-block.ts';
import { createRecordProducer, type RecordInParts } from '../src/kafka/record-producer.ts';
import { connectTopicAdmin } from '../src/kafka/topic-admin.ts';
import { benchKafka, requestTimeoutMs } from './support/clients.ts';
import { withServers } from './support/servers.ts';

const recordsTotal = 300_000;
/** Sent once to warm up, then again and again: enough of them not to stay in the processor's cache. */
const recordsDistinct = 60_000;
const valueBytes = 200;
const partitions = 3;
const batchSizes = [1000, 5000, 10_000];
const headerCounts = [0, 1, 5] as const;

type HeaderCount = (typeof headerCounts)[number];
type Send = (topic: string, records: readonly RecordInParts[]) => Promise<unknown>;

interface Contender {
  readonly name: string;
  readonly headers: readonly HeaderCount[];
  /** Sends under way at the same time: what a relay does that reads the next page while the last one is sent. */
  readonly sendsAtOnce: number;
  readonly record: (headers: HeaderCount) => RecordInParts;
  readonly open: (kafka: Kafka) => Promise<{ send: Send; close: () => Promise<void> }>;
}

/** The same records through kafkajs as it is and through our producer, to one broker that everything shares the machine with. */
export const run = (): Promise<void> =>
  withServers(async ({ kafkaBrokers }) => {
    const kafka = benchKafka({ kafkaBrokers });
    console.log('producer                      | headers | batch  | events/s | CPU s per 100 k | peak MB');
    // Side by side, so that whatever else the machine does falls on all of them.
    for (const headers of headerCounts)
      for (const batchSize of batchSizes)
        for (const contender of contenders)
          if (contender.headers.includes(headers)) await measure(kafka, contender, { headers, batchSize });
  });

const common = {
  ce_specversion: '1.0',
  ce_type: 'com.millrace.OrderCreated',
  ce_source: '/millrace/orders',
  'content-type': 'application/avro',
};
const sharedHeaders = encodeHeaders(common);
const own = () => ({ key: randomUUID(), value: randomBytes(valueBytes) });

const inFull = (headers: HeaderCount): RecordInParts => {
  if (headers === 0) return own();
  const ce_id = randomUUID();
  return { ...own(), headers: headers === 1 ? { ce_id } : { ...common, ce_id } };
};

const withSharedHeaders = (headers: HeaderCount): RecordInParts =>
  headers === 5 ? { ...own(), sharedHeaders, headers: { ce_id: randomUUID() } } : inFull(headers);

const openOurs: Contender['open'] = async (kafka) => {
  const producer = createRecordProducer(kafka, { inFlightMax: 5, produceTimeoutMs: requestTimeoutMs });
  return {
    send: (topic, records) => producer.send(new Map([[topic, records]])),
    close: () => producer.close(),
  };
};

const openKafkajs: Contender['open'] = async (kafka) => {
  const producer = kafka.producer({
    idempotent: true,
    maxInFlightRequests: 5,
    createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
  });
  await producer.connect();
  return {
    send: (topic, records) =>
      producer.sendBatch({
        acks: -1,
        timeout: requestTimeoutMs,
        compression: CompressionTypes.None,
        topicMessages: [
          { topic, messages: records.map(({ key, value, headers = {} }) => ({ key, value, headers })) },
        ],
      }),
    close: () => producer.disconnect(),
  };
};

const contenders: readonly Contender[] = [
  { name: 'kafkajs sendBatch', headers: headerCounts, sendsAtOnce: 1, record: inFull, open: openKafkajs },
  { name: 'ours, no shared headers', headers: [5], sendsAtOnce: 1, record: inFull, open: openOurs },
  { name: 'ours', headers: headerCounts, sendsAtOnce: 1, record: withSharedHeaders, open: openOurs },
  {
    name: 'ours, two sends at once',
    headers: headerCounts,
    sendsAtOnce: 2,
    record: withSharedHeaders,
    open: openOurs,
  },
];

let topics = 0;

const measure = async (
  kafka: Kafka,
  contender: Contender,
  { headers, batchSize }: { headers: HeaderCount; batchSize: number },
): Promise<void> => {
  const topic = `bench-${++topics}`;
  const admin = await connectTopicAdmin(kafka);
  await admin.create([
    { topic, partitions, replicationFactor: 1, minInsyncReplicas: 1, retentionMs: 3_600_000 },
  ]);
  const distinct = Array.from({ length: recordsDistinct / batchSize }, () =>
    Array.from({ length: batchSize }, () => contender.record(headers)),
  );
  const pages = Array.from({ length: recordsTotal / recordsDistinct }, () => distinct).flat();
  const { send, close } = await contender.open(kafka);
  const figures = await sendAll(topic, distinct, contender.sendsAtOnce, send)
    .then(() => meter(() => sendAll(topic, pages, contender.sendsAtOnce, send)))
    .catch((error: Error) => error.message);
  if (typeof figures !== 'string') {
    const ends = await admin.endOffsets(topic);
    const arrived = ends.reduce((sum, { offset }) => sum + offset, 0);
    if (arrived !== recordsTotal + recordsDistinct) throw new Error(`${arrived} records arrived`);
  }
  await close();
  await admin.close();
  const where = [contender.name.padEnd(29), String(headers).padStart(7), String(batchSize).padStart(6)];
  console.log([...where, ...(typeof figures === 'string' ? [figures] : columns(figures))].join(' | '));
};

interface Figures {
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly memoryBytes: number;
}

const memorySampleMs = 20;

const meter = async (work: () => Promise<void>): Promise<Figures> => {
  const memoryBefore = process.memoryUsage.rss();
  let memoryPeak = memoryBefore;
  const sampling = setInterval(() => {
    memoryPeak = Math.max(memoryPeak, process.memoryUsage.rss());
  }, memorySampleMs);
  const cpuBefore = process.cpuUsage();
  const start = performance.now();
  await work().finally(() => clearInterval(sampling));
  const { user, system } = process.cpuUsage(cpuBefore);
  return {
    seconds: (performance.now() - start) / 1000,
    cpuSeconds: (user + system) / 1e6,
    memoryBytes: memoryPeak - memoryBefore,
  };
};

const columns = ({ seconds, cpuSeconds, memoryBytes }: Figures): readonly string[] => [
  Math.round(recordsTotal / seconds)
    .toLocaleString('en')
    .padStart(8),
  (cpuSeconds / (recordsTotal / 100_000)).toFixed(2).padStart(15),
  `+${Math.round(memoryBytes / 2 ** 20)}`.padStart(7),
];

const sendAll = async (
  topic: string,
  pages: readonly (readonly RecordInParts[])[],
  sendsAtOnce: number,
  send: Send,
): Promise<void> => {
  const underWay: Promise<unknown>[] = [];
  for (const page of pages) {
    if (underWay.length >= sendsAtOnce) await underWay.shift();
    underWay.push(send(topic, page));
  }
  await Promise.all(underWay);
};
