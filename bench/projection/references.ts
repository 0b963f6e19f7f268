import { randomUUID } from 'node:crypto';
import type { Kafka } from 'kafkajs';
import type { Logger } from 'pino';
import { createRecordSource } from '../../src/kafka/record-source.ts';
import type { Database } from '../../src/postgres/database.ts';
import { createEnvelopeDecoder } from '../../src/registry/envelope-decoder.ts';
import type { SchemaRegistry } from '../../src/registry/schema-registry.ts';
import type { RawBatch } from '../../src/streams/record.ts';

const topics = ['like-events', 'order-events', 'product-view-events'] as const;
const naiveEvents = 3000;
const decodedRecordsMax = 300_000;
const tableRows = 300_000;
const rowsAStatement = 1000;
const products = 1000;

const tell = (what: string, count: number, startedAt: number): void => {
  const perSecond = Math.round((count / (performance.now() - startedAt)) * 1000);
  console.log(`${what}: ${perSecond.toLocaleString('en')}/s`);
};

/** What kafkajs hands over of the same topics when nothing is done with it. */
export const consumeOnly = async (kafka: Kafka, records: number): Promise<void> => {
  const consumer = kafka.consumer({ groupId: `bench-${randomUUID()}`, maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topics: [...topics], fromBeginning: true });
  let [read, start] = [0, 0];
  const done = Promise.withResolvers<void>();
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      if (read === 0) start = performance.now();
      read += batch.messages.length;
      if (read >= records) done.resolve();
    },
  });
  await done.promise;
  tell('kafkajs, consume only', records, start);
  await consumer.disconnect();
};

/** Records that are in memory already, made into envelopes. */
export const decodeOnly = async (kafka: Kafka, registry: SchemaRegistry, log: Logger): Promise<void> => {
  const source = createRecordSource(kafka, {
    groupId: `bench-${randomUUID()}`,
    topics,
    startFrom: 'earliest',
    sessionTimeoutMs: 30_000,
    heartbeatIntervalMs: 10_000,
    queueBytesMax: 16 * 1024 * 1024,
    stallMs: 60_000,
    retryDelayMs: 1000,
    log,
  });
  await source.start({
    onAssigned: async (places) => places.map((place) => ({ ...place, offset: 0 })),
    onRevoked: () => {},
    onGone: () => false,
  });
  const batches: RawBatch[] = [];
  let records = 0;
  while (records < decodedRecordsMax) {
    const taken = await source.take({ recordsMax: 5000, waitMs: 1000 });
    if (taken.length === 0) break;
    for (const batch of taken) {
      batches.push(batch);
      records += batch.records.length;
    }
  }
  await source.stop();
  const decoder = createEnvelopeDecoder(registry);
  const start = performance.now();
  for (const batch of batches) await decoder.decode(batch);
  tell('decode only', records, start);
};

const dedupStatement = {
  name: 'bench-dedup',
  text: 'insert into bench_handled (id) select unnest($1::uuid[]) on conflict do nothing returning id',
};

/** An id each, as a table of handled events is usually made. */
export const dedupOnly = async (db: Database): Promise<void> => {
  const start = performance.now();
  for (let done = 0; done < tableRows; done += rowsAStatement)
    await db.execute(dedupStatement, [Array.from({ length: rowsAStatement }, () => randomUUID())]);
  tell(`PostgreSQL, dedup only, ${rowsAStatement} a statement`, tableRows, start);
};

const upsertStatement = {
  name: 'bench-upsert',
  text: `
    insert into bench_statistic (product_id, seen) select * from unnest($1::text[], $2::bigint[])
    on conflict (product_id) do update set seen = bench_statistic.seen + excluded.seen`,
};

/** Every count a row, with nothing folded before. */
export const upsertOnly = async (db: Database): Promise<void> => {
  const keys = Array.from({ length: products }, (_, index) => `product-${index}`);
  const ones = keys.map(() => 1);
  const start = performance.now();
  for (let done = 0; done < tableRows; done += products) await db.execute(upsertStatement, [keys, ones]);
  tell(`PostgreSQL, upsert only, ${products} a statement`, tableRows, start);
};

const tableStatements = [
  { name: 'bench-create-handled', text: 'create table bench_handled (id uuid primary key)' },
  {
    name: 'bench-create-statistic',
    text: 'create table bench_statistic (product_id text primary key, seen bigint not null)',
  },
];

export const createReferenceTables = async (db: Database): Promise<void> => {
  for (const statement of tableStatements) await db.execute(statement);
};

const naiveStatements = {
  name: 'bench-naive',
  text: `
    with handled as (
      insert into bench_handled (id) values ($1) on conflict do nothing returning id
    )
    insert into bench_statistic (product_id, seen) select $2, 1 from handled
    on conflict (product_id) do update set seen = bench_statistic.seen + 1`,
};

/** What people write first: a message, a transaction. */
export const oneTransactionPerEvent = async (
  kafka: Kafka,
  registry: SchemaRegistry,
  db: Database,
): Promise<void> => {
  const decoder = createEnvelopeDecoder(registry);
  const consumer = kafka.consumer({ groupId: 'bench-naive', maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topics: [...topics], fromBeginning: true });
  let [read, start] = [0, 0];
  const done = Promise.withResolvers<void>();
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      if (read >= naiveEvents || !message.value) return done.resolve();
      if (read++ === 0) start = performance.now();
      const raw = {
        offset: 0,
        timestampMs: 0,
        key: message.key,
        value: message.value,
        headers: {},
        replay: undefined,
        bytes: message.value,
        valueStart: 0,
        valueEnd: message.value.length,
      };
      const { records } = await decoder.decode({
        topic,
        partition,
        reading: 0,
        fromOffset: 0,
        records: [raw],
        nextOffset: 1,
      });
      const [record] = records;
      if (record && 'id' in record) await db.execute(naiveStatements, [record.id, record.key]);
    },
  });
  await done.promise;
  tell('one transaction per event', naiveEvents, start);
  await consumer.disconnect();
};
