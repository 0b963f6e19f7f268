import { setTimeout as pause } from 'node:timers/promises';
import type { Kafka } from 'kafkajs';
import { v7 as uuidv7 } from 'uuid';
import { frame } from '../src/avro/confluent-frame.ts';
import { envelopeSchemaOf } from '../src/avro/envelope-schema.ts';
import { orderId, paymentId, productId, userId } from '../src/domain/ids.ts';
import {
  type CataloguedEvent,
  eventCatalogue,
  partitionKeyOf,
} from '../src/event-catalogue/event-catalogue.ts';
import type { Endpoints } from '../src/infra/infrastructure.ts';
import { createKafka } from '../src/kafka/create-kafka.ts';
import { encodeHeaders } from '../src/kafka/header-block.ts';
import { createRecordProducer, type OutgoingRecord } from '../src/kafka/record-producer.ts';
import { createLogger } from '../src/logging/create-logger.ts';
import { type Database, openDatabase } from '../src/postgres/database.ts';
import { createEnvelopeDecoder } from '../src/registry/envelope-decoder.ts';
import { registerSchemas } from '../src/registry/register-schemas.ts';
import { connectSchemaRegistry, type SchemaRegistry } from '../src/registry/schema-registry.ts';
import { createRandom } from '../src/streams/testing/topology-test-driver.ts';
import { cpuSecondsOf, cpuSecondsOfTree, peakMemoryMbOf } from './support/process-cost.ts';
import { type ServerPids, startRole, withServers } from './support/servers.ts';

const eventsDefault = 1_000_000;
const naiveEvents = 3000;
const pageSize = 10_000;
const products = 1000;
const requestTimeoutMs = 30_000;
const log = createLogger({ level: 'warn', format: 'pretty' });
const topics = ['like-events', 'order-events', 'product-view-events'] as const;

/**
 * The projector as a process of its own on a backlog: 35 % likes, 5 % of them taken back, 50 % views, 10 % paid orders, one
 * in a hundred delivered twice, products skewed. From its start to exact counts; beside it one transaction per event.
 */
export const run = ([count]: readonly string[]): Promise<void> =>
  withServers(async (endpoints, pids) => {
    const events = count === undefined ? eventsDefault : Number(count);
    const kafka = createKafka({
      brokers: endpoints.kafkaBrokers,
      clientId: 'bench',
      connectTimeoutMs: 5000,
      requestTimeoutMs,
      retriesMax: 5,
      retryDelayMs: 100,
      log,
    });
    const registry = connectSchemaRegistry({
      url: endpoints.schemaRegistryUrl,
      requestTimeoutMs,
      compatibility: 'FULL_TRANSITIVE',
    });
    // Started once and stopped, so that tables and topics are there.
    await (await startRole('projector', endpoints)).stop();
    const db = openDatabase({
      url: endpoints.databaseUrl,
      applicationName: 'bench',
      poolSizeMax: 2,
      connectTimeoutMs: 5000,
      statementTimeoutMs: 600_000,
      idleTransactionTimeoutMs: 600_000,
      onIdleError: () => {},
    });
    try {
      const expected = await fill(kafka, registry, events);
      await measureProjector(endpoints, pids, db, expected);
      await naive(kafka, registry, db);
    } finally {
      await db.close();
    }
  });

interface Totals {
  records: number;
  likes: number;
  sales: number;
  views: number;
}

const sharedHeaders = encodeHeaders({
  ce_specversion: '1.0',
  ce_source: 'millrace',
  'content-type': 'application/avro',
});

/** Writes the backlog as a relay would have, and tells what must come of it. */
const fill = async (kafka: Kafka, registry: SchemaRegistry, events: number): Promise<Totals> => {
  const registered = await registerSchemas(registry);
  const ids = new Map(registered.map(({ fullName, schemaId }) => [fullName, schemaId]));
  const producer = createRecordProducer(kafka, { inFlightMax: 5, requestTimeoutMs });
  const random = createRandom(1);
  const totals: Totals = { records: 0, likes: 0, sales: 0, views: 0 };
  // As if they had happened at a thousand a second until now.
  const startedMs = Date.now() - events;
  let made = 0;

  const recordOf = (
    event: CataloguedEvent,
    aggregateId: string,
    version: number,
  ): [string, OutgoingRecord] => {
    const { type: name, ...data } = event;
    const { eventType, aggregateType, topic } = eventCatalogue[name];
    const schema = envelopeSchemaOf(name);
    const id = uuidv7();
    const payload = schema.type.toBuffer({
      id,
      type: eventType,
      source: 'millrace',
      aggregateType,
      aggregateId,
      aggregateVersion: version,
      time: startedMs + made,
      correlationId: id,
      causationId: id,
      traceparent: null,
      data,
    });
    made++;
    const value = frame(ids.get(schema.fullName) ?? 0, payload);
    return [
      topic,
      { key: partitionKeyOf(event), value, sharedHeaders, headers: { ce_id: id, ce_type: eventType } },
    ];
  };

  const next = (): readonly [string, OutgoingRecord][] => {
    // Squared, so that a few products have most of it.
    const product = `product-${Math.floor(random() ** 2 * products)}`;
    const of = { productId: productId(product) };
    const chance = random();
    if (chance < 0.5) {
      totals.views++;
      return [recordOf({ type: 'ProductViewed', ...of, userId: null }, `${product}_${uuidv7()}`, 1)];
    }
    if (chance < 0.85) {
      const user = uuidv7();
      const like = { ...of, userId: userId(user) };
      const created = recordOf({ type: 'LikeCreated', ...like }, `${product}_${user}`, 1);
      totals.likes++;
      if (chance < 0.8) return [created];
      totals.likes--;
      return [created, recordOf({ type: 'LikeCanceled', ...like }, `${product}_${user}`, 2)];
    }
    const order = uuidv7();
    const quantity = 1 + Math.floor(random() * 3);
    totals.sales += quantity;
    return [
      recordOf(
        {
          type: 'OrderPaid',
          orderId: orderId(order),
          userId: userId('buyer'),
          items: [{ ...of, quantity, unitPriceMinor: 100 }],
          total: { amountMinor: 100 * quantity, currency: 'EUR' },
          paymentId: paymentId(order),
        },
        order,
        1,
      ),
    ];
  };

  while (made < events) {
    const page = new Map<string, OutgoingRecord[]>();
    for (let size = 0; size < pageSize && made < events; ) {
      for (const [topic, record] of next()) {
        const records = page.get(topic) ?? [];
        page.set(topic, records);
        records.push(record);
        if (random() < 0.01) records.push(record);
        size++;
      }
    }
    for (const records of page.values()) totals.records += records.length;
    await producer.send(page);
  }
  await producer.close();
  return totals;
};

const totalsStatement = {
  name: 'bench-totals',
  text: `
    select coalesce(sum(like_count), 0)::bigint as likes, coalesce(sum(sales_count), 0)::bigint as sales,
           coalesce(sum(view_count), 0)::bigint as views
    from product_statistic`,
};

const isExact = async (db: Database, expected: Totals): Promise<boolean> => {
  const [found] = await db.execute<Totals>(totalsStatement);
  return found?.likes === expected.likes && found.sales === expected.sales && found.views === expected.views;
};

const appliedStatement = {
  name: 'bench-applied',
  text: `select coalesce(sum(next_offset), 0)::bigint as applied from projection_checkpoint where projection = $1`,
};

const appliedBy = async (db: Database): Promise<number> => {
  const [row] = await db.execute<{ applied: number }>(appliedStatement, ['product-statistic']);
  return row?.applied ?? 0;
};

/** Only the statistic: the other projections of a process would share its time. */
const onlyStatistic = { MILLRACE_PROJECTIONS: 'product-statistic' };

const measureProjector = async (
  endpoints: Endpoints,
  pids: ServerPids,
  db: Database,
  expected: Totals,
): Promise<void> => {
  const before = { postgres: cpuSecondsOfTree(pids.postgres), broker: cpuSecondsOf(pids.broker) };
  const projector = await startRole('projector', endpoints, onlyStatistic);
  const pid = projector.child.pid ?? 0;
  while ((await appliedBy(db)) === 0) await pause(5);
  const [start, cpuAtStart] = [performance.now(), cpuSecondsOf(pid)];
  while ((await appliedBy(db)) < expected.records) await pause(20);
  const seconds = (performance.now() - start) / 1000;
  if (!(await isExact(db, expected))) throw new Error('The counts are not exact');
  const per100k = (cpu: number): string => (cpu / (expected.records / 100_000)).toFixed(2);
  console.log(`${expected.records.toLocaleString('en')} records, exact counts`);
  console.log(`projector: ${Math.round(expected.records / seconds).toLocaleString('en')} events/s`);
  console.log(
    `CPU s per 100 k: projector ${per100k(cpuSecondsOf(pid) - cpuAtStart)}, PostgreSQL ${per100k(
      cpuSecondsOfTree(pids.postgres) - before.postgres,
    )}, broker ${per100k(cpuSecondsOf(pids.broker) - before.broker)}; peak memory ${peakMemoryMbOf(pid)} MB`,
  );
  await projector.stop();
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
const naive = async (kafka: Kafka, registry: SchemaRegistry, db: Database): Promise<void> => {
  await db.execute({ name: 'bench-a', text: 'create table bench_handled (id uuid primary key)' });
  await db.execute({
    name: 'bench-b',
    text: 'create table bench_statistic (product_id text primary key, seen bigint not null)',
  });
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
  console.log(
    `one transaction per event: ${Math.round(naiveEvents / ((performance.now() - start) / 1000)).toLocaleString('en')} events/s`,
  );
  await consumer.disconnect();
};
