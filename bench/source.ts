import { randomUUID } from 'node:crypto';
import type { Kafka } from 'kafkajs';
import { frame } from '../src/avro/confluent-frame.ts';
import { envelopeSchemaOf, subjectOf } from '../src/avro/envelope-schema.ts';
import { encodeHeaders } from '../src/kafka/header-block.ts';
import { createRecordProducer, type OutgoingRecord } from '../src/kafka/record-producer.ts';
import { createRecordSource } from '../src/kafka/record-source.ts';
import { connectTopicAdmin } from '../src/kafka/topic-admin.ts';
import { createEnvelopeDecoder } from '../src/registry/envelope-decoder.ts';
import type { SchemaRegistry } from '../src/registry/schema-registry.ts';
import type { RecordDecoder } from '../src/streams/ports.ts';
import { benchKafka, benchRegistry, benchLog as log, requestTimeoutMs } from './support/clients.ts';
import { withServers } from './support/servers.ts';

const recordsTotal = 1_000_000;
const pageSize = 10_000;
const partitions = 3;
const topics = ['bench-likes', 'bench-views', 'bench-orders'];

/** A million events with five headers in nine partitions: what kafkajs reads of them, what our source does, and with decoding. */
export const run = (): Promise<void> =>
  withServers(async ({ kafkaBrokers, schemaRegistryUrl }) => {
    const kafka = benchKafka({ kafkaBrokers });
    const registry = benchRegistry({ schemaRegistryUrl });
    await fill(kafka, registry);
    console.log('reads                         | records/s | CPU s per 100 k | peak MB');
    await measure('kafkajs alone', () => readWithKafkajs(kafka));
    for (let turn = 0; turn < 2; turn++) {
      await measure('our source', () => readFromSource(kafka, undefined));
      await measure('our source, decoded', () => readFromSource(kafka, createEnvelopeDecoder(registry)));
    }
  });

const sharedHeaders = encodeHeaders({
  ce_specversion: '1.0',
  ce_type: 'loopers.like.created.v1',
  ce_source: 'millrace',
  'content-type': 'application/avro',
});

const fill = async (kafka: Kafka, registry: SchemaRegistry): Promise<void> => {
  const schema = envelopeSchemaOf('LikeCreated');
  const schemaId = await registry.idOf(subjectOf('like-events', schema.fullName), schema.json);
  const admin = await connectTopicAdmin(kafka);
  const plan = { partitions, replicationFactor: 1, minInsyncReplicas: 1, retentionMs: 3_600_000 };
  await admin.create(topics.map((topic) => ({ topic, ...plan })));
  await admin.close();
  const like = (): OutgoingRecord => {
    const id = randomUUID();
    const productId = randomUUID();
    const userId = randomUUID();
    const envelope = {
      id,
      type: schema.eventType,
      source: 'millrace',
      aggregateType: 'Like',
      aggregateId: `${productId}_${userId}`,
      aggregateVersion: 1,
      time: Date.now(),
      correlationId: randomUUID(),
      causationId: randomUUID(),
      traceparent: null,
      data: { productId, userId },
    };
    const value = frame(schemaId, schema.type.toBuffer(envelope));
    return { key: productId, value, sharedHeaders, headers: { ce_id: id } };
  };
  const producer = createRecordProducer(kafka, { inFlightMax: 5, produceTimeoutMs: requestTimeoutMs });
  for (let sent = 0; sent < recordsTotal; sent += pageSize) {
    const topic = topics[(sent / pageSize) % topics.length] as string;
    await producer.send(new Map([[topic, Array.from({ length: pageSize }, like)]]));
  }
  await producer.close();
};

const readWithKafkajs = async (kafka: Kafka): Promise<void> => {
  const consumer = kafka.consumer({ groupId: randomUUID(), maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topics, fromBeginning: true });
  let read = 0;
  const done = Promise.withResolvers<void>();
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      read += batch.messages.length;
      if (read >= recordsTotal) done.resolve();
    },
  });
  await done.promise;
  await consumer.disconnect();
};

const readFromSource = async (kafka: Kafka, decoder: RecordDecoder | undefined): Promise<void> => {
  const source = createRecordSource(kafka, {
    groupId: randomUUID(),
    topics,
    startFrom: 'earliest',
    sessionTimeoutMs: 30_000,
    heartbeatIntervalMs: 10_000,
    queueBytesMax: Number(process.env.STREAMS_QUEUE_BYTES_MAX ?? 16 * 1024 * 1024),
    stallMs: 60_000,
    retryDelayMs: 1000,
    log,
  });
  await source.start({
    onAssigned: async (places) => places.map((place) => ({ ...place, offset: 0 })),
    onRevoked: () => {},
    onGone: () => false,
  });
  let read = 0;
  while (read < recordsTotal) {
    const batches = await source.take({ recordsMax: 5000, waitMs: 1000 });
    for (const batch of batches) {
      if (decoder) {
        const { records } = await decoder.decode(batch);
        for (const record of records) if ('error' in record) throw record.error;
      }
      read += batch.records.length;
    }
  }
  if (read !== recordsTotal) throw new Error(`${read} records were read`);
  await source.stop();
};

const memorySampleMs = 20;

const measure = async (what: string, work: () => Promise<void>): Promise<void> => {
  let memoryPeak = 0;
  const sampling = setInterval(() => {
    memoryPeak = Math.max(memoryPeak, process.memoryUsage.rss());
  }, memorySampleMs);
  const cpuBefore = process.cpuUsage();
  const start = performance.now();
  await work().finally(() => clearInterval(sampling));
  const { user, system } = process.cpuUsage(cpuBefore);
  const rate = Math.round((recordsTotal / (performance.now() - start)) * 1000);
  console.log(
    [
      what.padEnd(29),
      rate.toLocaleString('en').padStart(9),
      ((user + system) / 1e6 / (recordsTotal / 100_000)).toFixed(3).padStart(15),
      String(Math.round(memoryPeak / 2 ** 20)).padStart(7),
    ].join(' | '),
  );
};
