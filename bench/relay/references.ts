import { Kafka, logLevel } from 'kafkajs';
import pg from 'pg';
import type { Endpoints } from '../../src/infra/infrastructure.ts';
import { payloadBytes } from './outbox-rows.ts';

const topic = 'product-view-events';
const pollerRows = 3000;
const pollerBatch = 100;
const pollerSleepSeconds = 0.5;
const kafkajsRecords = 300_000;
const kafkajsBatch = 3000;

const producerFor = ({ kafkaBrokers }: Endpoints) =>
  new Kafka({ brokers: [...kafkaBrokers], logLevel: logLevel.NOTHING }).producer({ idempotent: true });

/** What most people write: lock a hundred rows, send, mark them, sleep half a second. Timed without the sleep as well. */
export const handWrittenPoller = async (endpoints: Endpoints): Promise<void> => {
  const client = new pg.Client({ connectionString: endpoints.databaseUrl });
  await client.connect();
  await client.query(
    'create table naive_outbox (id bigserial primary key, key text, payload bytea, published boolean default false)',
  );
  await client.query(
    `insert into naive_outbox (key, payload)
     select 'p' || n % 1000, decode(repeat('ab', ${payloadBytes}), 'hex') from generate_series(1, ${pollerRows}) n`,
  );
  const producer = producerFor(endpoints);
  await producer.connect();
  const start = performance.now();
  for (let sent = 0; sent < pollerRows; ) {
    await client.query('begin');
    const { rows } = await client.query(
      `select id, key, payload from naive_outbox where not published order by id limit ${pollerBatch} for update skip locked`,
    );
    await producer.send({ topic, messages: rows.map(({ key, payload }) => ({ key, value: payload })) });
    const ids = rows.map(({ id }) => id);
    await client.query('update naive_outbox set published = true where id = any ($1)', [ids]);
    await client.query('commit');
    sent += rows.length;
  }
  const seconds = (performance.now() - start) / 1000;
  const sleeps = (pollerRows / pollerBatch) * pollerSleepSeconds;
  console.log(
    `hand-written poller: ${Math.round(pollerRows / (seconds + sleeps))} events/s, ${Math.round(pollerRows / seconds)} without its sleep`,
  );
  await producer.disconnect();
  await client.end();
};

const cloudEvent = () => ({
  ce_specversion: '1.0',
  ce_type: 'loopers.product.viewed.v1',
  ce_source: 'bench',
  'content-type': 'application/avro',
  ce_id: crypto.randomUUID(),
});

/** The same records without a table behind them. */
export const bareKafkajs = async (endpoints: Endpoints): Promise<void> => {
  const producer = producerFor(endpoints);
  await producer.connect();
  const value = Buffer.alloc(payloadBytes + 5, 0xab);
  for (const headers of [undefined, cloudEvent]) {
    const messages = Array.from({ length: kafkajsBatch }, (_, index) => ({
      key: `p${index % 1000}`,
      value,
      ...(headers && { headers: headers() }),
    }));
    const cpuBefore = process.cpuUsage();
    const start = performance.now();
    for (let sent = 0; sent < kafkajsRecords; sent += messages.length)
      await producer.sendBatch({ acks: -1, topicMessages: [{ topic, messages }] });
    const seconds = (performance.now() - start) / 1000;
    const { user, system } = process.cpuUsage(cpuBefore);
    const cpuPer100k = (user + system) / 1e6 / (kafkajsRecords / 100_000);
    console.log(
      `kafkajs sendBatch alone, ${headers ? 'five headers' : 'no headers'}: ` +
        `${Math.round(kafkajsRecords / seconds).toLocaleString('en-US')} events/s, ${cpuPer100k.toFixed(2)} CPU s per 100 k`,
    );
  }
  await producer.disconnect();
};
