import { Kafka, logLevel } from 'kafkajs';
import pg from 'pg';
import { envelopeSchemaOf } from '../src/avro/envelope-schema.ts';
import type { Endpoints } from '../src/infra/infrastructure.ts';
import { storeWriterSchemas } from '../src/journal/writer-schemas.ts';
import { createLogger } from '../src/logging/create-logger.ts';
import { type Database, openDatabase } from '../src/postgres/database.ts';
import { migrate } from '../src/postgres/migrate.ts';
import { startRole, withServers } from './support/servers.ts';

const drainRows = 300_000;
const payloadBytes = 200;
const steadySeconds = 20;
const steadyPerSecond = 500;
const pollerRows = 3000;

/** The relay as a process of its own: draining a backlog, and keeping up; a hand-written poller and bare kafkajs beside it. */
export const run = (): Promise<void> =>
  withServers(async (endpoints) => {
    await migrate(endpoints.databaseUrl, {
      log: createLogger({ level: 'warn', format: 'pretty' }),
      connectTimeoutMs: 5000,
    });
    const db = openDatabase({
      url: endpoints.databaseUrl,
      applicationName: 'bench',
      poolSizeMax: 4,
      connectTimeoutMs: 5000,
      statementTimeoutMs: 600_000,
      onIdleError: () => {},
    });
    try {
      await storeWriterSchemas(db);
      for (const batchSize of ['100', '1000', '5000']) await drain(db, endpoints, 'cursor', batchSize);
      await steady(db, endpoints, 'cursor');
      await drain(db, endpoints, 'wal', '5000');
      await steady(db, endpoints, 'wal');
      await naivePoller(endpoints);
      await bareKafkajs(endpoints);
    } finally {
      await db.close();
    }
  });

/** Rows that the relay takes for real ones: payload, hash and schema fit together. */
const fill = async (db: Database, count: number): Promise<void> => {
  await db.execute(
    {
      name: 'fill',
      text: `
        insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version, partition_key,
                            request_id, schema_fingerprint, payload, content_hash, occurred_at)
        select gen_random_uuid(), 'loopers.product.viewed.v1', 'bench', 'ProductView', gen_random_uuid(), 1,
               'p' || n % 1000, 'r', $2, payload, sha256('r|loopers.product.viewed.v1|'::bytea || payload), now()
        from generate_series(1, $1::int) n, (select decode(repeat('ab', ${payloadBytes}), 'hex') as payload) p`,
    },
    [count, Buffer.from(envelopeSchemaOf('ProductViewed').fingerprint, 'hex')],
  );
};

const endOffsets = async (endpoints: Endpoints): Promise<number> => {
  const admin = new Kafka({ brokers: [...endpoints.kafkaBrokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  try {
    const offsets = await admin.fetchTopicOffsets('product-view-events').catch(() => []);
    return offsets.reduce((sum, { high }) => sum + Number(high), 0);
  } finally {
    await admin.disconnect();
  }
};

const cpuSecondsOf = (pid: number | undefined): number => {
  const stat =
    pid === undefined ? '' : process.getBuiltinModule('node:fs').readFileSync(`/proc/${pid}/stat`, 'utf8');
  const [user = 0, system = 0] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
    .map(Number);
  return (user + system) / 100;
};
const peakMemoryOf = (pid: number | undefined): string => {
  const status = process.getBuiltinModule('node:fs').readFileSync(`/proc/${pid}/status`, 'utf8');
  return `${Math.round(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024)} MB`;
};

const drain = async (
  db: Database,
  endpoints: Endpoints,
  source: string,
  batchSize: string,
): Promise<void> => {
  Object.assign(process.env, { RELAY_SOURCE: source, RELAY_BATCH_SIZE_MAX: batchSize });
  const relay = await startRole('relay', endpoints);
  const before = await endOffsets(endpoints);
  await pause(2000);
  const cpuBefore = cpuSecondsOf(relay.child.pid);
  await fill(db, drainRows);
  const start = performance.now();
  let published = 0;
  while (published < drainRows) {
    await pause(20);
    published = (await endOffsets(endpoints)) - before;
  }
  const seconds = (performance.now() - start) / 1000;
  const cpu = ((cpuSecondsOf(relay.child.pid) - cpuBefore) / drainRows) * 100_000;
  console.log(
    `drain, ${source}, pages of ${batchSize}: ${Math.round(published / seconds).toLocaleString('en-US')} events/s, ${cpu.toFixed(2)} CPU s per 100 k, peak ${peakMemoryOf(relay.child.pid)}`,
  );
  await relay.stop();
};

const steady = async (db: Database, endpoints: Endpoints, source: string): Promise<void> => {
  Object.assign(process.env, { RELAY_SOURCE: source, RELAY_BATCH_SIZE_MAX: '1000' });
  const relay = await startRole('relay', endpoints);
  const consumer = new Kafka({ brokers: [...endpoints.kafkaBrokers], logLevel: logLevel.NOTHING }).consumer({
    groupId: `bench-${source}-${process.pid}`,
    maxWaitTimeInMs: 50,
  });
  const committedAt = new Map<string, number>();
  const delays: number[] = [];
  await consumer.connect();
  await consumer.subscribe({ topic: 'product-view-events', fromBeginning: false });
  await consumer.run({
    eachMessage: async ({ message }) => {
      const id = String(message.headers?.ce_id);
      const at = committedAt.get(id);
      if (at !== undefined) delays.push(performance.now() - at);
    },
  });
  await pause(1500);
  const cpuBefore = cpuSecondsOf(relay.child.pid);
  const notify = { name: 'tell', text: `select pg_notify('millrace_outbox', '')` };
  for (let turn = 0; turn < steadySeconds * 100; turn++) {
    const due = performance.now() + 10;
    await Promise.all(
      Array.from({ length: steadyPerSecond / 100 }, async () => {
        const id = crypto.randomUUID();
        await insertOne(db, id);
        committedAt.set(id, performance.now());
      }),
    );
    await db.execute(notify);
    await pause(Math.max(0, due - performance.now()));
  }
  await pause(1500);
  const cpuShare = ((cpuSecondsOf(relay.child.pid) - cpuBefore) / (steadySeconds + 1.5)) * 100;
  delays.sort((a, b) => a - b);
  const percentile = (share: number): string =>
    (delays[Math.floor(delays.length * share)] ?? Number.NaN).toFixed(1);
  console.log(
    `steady ${steadyPerSecond}/s, ${source}: commit to consumer p50 ${percentile(0.5)} ms, p95 ${percentile(0.95)} ms, p99 ${percentile(0.99)} ms (${delays.length} events), relay ${cpuShare.toFixed(0)} % of a core`,
  );
  await consumer.disconnect();
  await relay.stop();
};

const insertOne = (db: Database, id: string): Promise<unknown> =>
  db.execute(
    {
      name: 'insert-one',
      text: `
        insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version, partition_key,
                            request_id, schema_fingerprint, payload, content_hash, occurred_at)
        select $1::uuid, 'loopers.product.viewed.v1', 'bench', 'ProductView', $1, 1, $1, 'r', $2, payload,
               sha256('r|loopers.product.viewed.v1|'::bytea || payload), now()
        from (select decode(repeat('ab', ${payloadBytes}), 'hex') as payload) p`,
    },
    [id, Buffer.from(envelopeSchemaOf('ProductViewed').fingerprint, 'hex')],
  );

/** What most people write: lock a hundred rows, send, mark them, sleep half a second. Timed without the sleep as well. */
const naivePoller = async (endpoints: Endpoints): Promise<void> => {
  const client = new pg.Client({ connectionString: endpoints.databaseUrl });
  await client.connect();
  await client.query(
    'create table naive_outbox (id bigserial primary key, key text, payload bytea, published boolean default false)',
  );
  await client.query(
    `insert into naive_outbox (key, payload) select 'p' || n % 1000, decode(repeat('ab', ${payloadBytes}), 'hex') from generate_series(1, ${pollerRows}) n`,
  );
  const producer = new Kafka({ brokers: [...endpoints.kafkaBrokers], logLevel: logLevel.NOTHING }).producer({
    idempotent: true,
  });
  await producer.connect();
  const start = performance.now();
  let sent = 0;
  while (sent < pollerRows) {
    await client.query('begin');
    const { rows } = await client.query(
      'select id, key, payload from naive_outbox where not published order by id limit 100 for update skip locked',
    );
    await producer.send({
      topic: 'product-view-events',
      messages: rows.map(({ key, payload }) => ({ key, value: payload })),
    });
    await client.query('update naive_outbox set published = true where id = any ($1)', [
      rows.map(({ id }) => id),
    ]);
    await client.query('commit');
    sent += rows.length;
  }
  const seconds = (performance.now() - start) / 1000;
  const withSleep = pollerRows / (seconds + (pollerRows / 100) * 0.5);
  console.log(
    `hand-written poller: ${Math.round(withSleep)} events/s, ${Math.round(pollerRows / seconds)} without its sleep`,
  );
  await producer.disconnect();
  await client.end();
};

const bareKafkajs = async (endpoints: Endpoints): Promise<void> => {
  const producer = new Kafka({ brokers: [...endpoints.kafkaBrokers], logLevel: logLevel.NOTHING }).producer({
    idempotent: true,
  });
  await producer.connect();
  const value = Buffer.alloc(payloadBytes, 0xab);
  const messages = Array.from({ length: 3000 }, (_, index) => ({ key: `p${index % 1000}`, value }));
  const start = performance.now();
  for (let sent = 0; sent < drainRows; sent += messages.length) {
    await producer.sendBatch({ acks: -1, topicMessages: [{ topic: 'product-view-events', messages }] });
  }
  const seconds = (performance.now() - start) / 1000;
  console.log(
    `kafkajs sendBatch alone, no headers: ${Math.round(drainRows / seconds).toLocaleString('en-US')} events/s`,
  );
  await producer.disconnect();
};

const pause = (timeMs: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, timeMs));
