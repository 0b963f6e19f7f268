import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { v7 as uuidv7 } from 'uuid';
import { orderId, paymentId, productId, userId } from '../src/domain/ids.ts';
import type { CataloguedEvent } from '../src/event-catalogue/event-catalogue.ts';
import { eventCatalogue } from '../src/event-catalogue/event-catalogue.ts';
import type { Endpoints } from '../src/infra/infrastructure.ts';
import { appendEvents } from '../src/journal/append-events.ts';
import { type SealedEvent, sealEvent } from '../src/journal/seal-event.ts';
import type { Database } from '../src/postgres/database.ts';
import { projectRoot } from '../src/project-root.ts';
import { createRandom } from '../src/streams/testing/topology-test-driver.ts';
import { openBenchDatabase } from './support/clients.ts';
import { cpuSecondsOf, cpuSecondsOfTree, peakMemoryMbOf } from './support/process-cost.ts';
import { type ServerPids, startRole, withServers } from './support/servers.ts';

const eventsDefault = 1_000_000;
const pageSize = 10_000;
const products = 1000;
const onlyStatistic = { MILLRACE_PROJECTIONS: 'product-statistic' };

/**
 * A journal of 50 % views, 35 % likes, 5 % of them taken back, 10 % paid orders, at a thousand a second until now. First
 * the naive way: everything once more through Kafka and the normal consumer. Then `millrace rebuild` from the journal, with
 * its comparison and its swap.
 */
export const run = ([count]: readonly string[]): Promise<void> =>
  withServers(async (endpoints, pids) => {
    const events = count === undefined ? eventsDefault : Number(count);
    await (await startRole('projector', endpoints)).stop();
    const db = openBenchDatabase(endpoints.databaseUrl, 2);
    try {
      const written = await fillJournal(db, events);
      console.log(`${written.toLocaleString('en')} events in the journal`);
      await throughTheConsumer(endpoints, pids, db, written);
      await fromTheJournal(endpoints, pids);
    } finally {
      await db.close();
    }
  });

const fillJournal = async (db: Database, events: number): Promise<number> => {
  const random = createRandom(1);
  const startedMs = Date.now() - events;
  let made = 0;
  const seal = (event: CataloguedEvent, aggregateId: string, version: number): SealedEvent => {
    const eventId = uuidv7();
    return sealEvent({
      eventId,
      stream: { aggregateType: eventCatalogue[event.type].aggregateType, aggregateId },
      version,
      event,
      occurredAt: new Date(startedMs + made++),
      source: 'millrace',
      context: { requestId: eventId, correlationId: eventId, traceparent: null },
    });
  };
  const next = (): readonly SealedEvent[] => {
    // Squared, so that a few products have most of it.
    const product = `product-${Math.floor(random() ** 2 * products)}`;
    const of = { productId: productId(product) };
    const chance = random();
    if (chance < 0.5)
      return [seal({ type: 'ProductViewed', ...of, userId: null }, `${product}_${uuidv7()}`, 1)];
    if (chance < 0.85) {
      const user = uuidv7();
      const like = { ...of, userId: userId(user) };
      const created = seal({ type: 'LikeCreated', ...like }, `${product}_${user}`, 1);
      return chance < 0.8
        ? [created]
        : [created, seal({ type: 'LikeCanceled', ...like }, `${product}_${user}`, 2)];
    }
    const order = uuidv7();
    const quantity = 1 + Math.floor(random() * 3);
    const total = { amountMinor: 100 * quantity, currency: 'EUR' };
    const items = [{ ...of, quantity, unitPriceMinor: 100 }];
    const bought = { orderId: orderId(order), userId: userId('buyer'), items, total };
    return [seal({ type: 'OrderPaid', ...bought, paymentId: paymentId(order) }, order, 1)];
  };
  while (made < events) {
    const page: SealedEvent[] = [];
    while (page.length < pageSize && made < events) page.push(...next());
    await appendEvents(db, page);
  }
  await db.execute({ name: 'bench-analyze', text: 'analyze outbox' });
  return made;
};

const appliedStatement = {
  name: 'bench-applied',
  text: `select coalesce(sum(next_offset), 0)::bigint as applied from projection_checkpoint where projection = 'product-statistic'`,
};
const appliedBy = async (db: Database): Promise<number> => {
  const [row] = await db.execute<{ applied: number }>(appliedStatement);
  return row?.applied ?? 0;
};

const rateText = (events: number, seconds: number): string =>
  `${Math.round(events / seconds).toLocaleString('en')} events/s`;

const throughTheConsumer = async (
  endpoints: Endpoints,
  pids: ServerPids,
  db: Database,
  events: number,
): Promise<void> => {
  const relay = await startRole('relay', endpoints);
  while (!(await isRelayed(db))) await pause(200);
  await relay.stop();
  const projector = await startRole('projector', endpoints, onlyStatistic);
  const pid = projector.child.pid ?? 0;
  while ((await appliedBy(db)) === 0) await pause(5);
  const [start, cpu, postgres] = [performance.now(), cpuSecondsOf(pid), cpuSecondsOfTree(pids.postgres)];
  while ((await appliedBy(db)) < events) await pause(20);
  const seconds = (performance.now() - start) / 1000;
  console.log(
    `naive, through the normal consumer: ${rateText(events, seconds)}; CPU s per 100 k: projector ${per100k(events, cpuSecondsOf(pid) - cpu)}, PostgreSQL ${per100k(events, cpuSecondsOfTree(pids.postgres) - postgres)}`,
  );
  await projector.stop();
};

const per100k = (events: number, cpu: number): string => (cpu / (events / 100_000)).toFixed(2);

const relayedStatement = {
  name: 'bench-relayed',
  text: `
    select not exists (
      select from outbox o, outbox_position p
      where not pg_visible_in_snapshot(o.tx_id, p.from_snapshot)
        and not (pg_visible_in_snapshot(o.tx_id, p.to_snapshot) and o.id <= p.last_id)
      limit 1) as "isRelayed"`,
};
const isRelayed = async (db: Database): Promise<boolean> => {
  const [row] = await db.execute<{ isRelayed: boolean }>(relayedStatement);
  return row?.isRelayed ?? false;
};

interface Report {
  readonly outcome: string;
  readonly events: number;
  readonly seconds: number;
  readonly replaySeconds: number;
  readonly comparison: { readonly rows: number; readonly differences: number };
}

const fromTheJournal = async (endpoints: Endpoints, pids: ServerPids): Promise<void> => {
  const postgres = cpuSecondsOfTree(pids.postgres);
  const child = spawn(
    process.execPath,
    [join(projectRoot, 'src/cli/millrace.ts'), 'rebuild', 'product-statistic', '--json'],
    {
      env: {
        ...process.env,
        DATABASE_URL: endpoints.databaseUrl,
        KAFKA_BROKERS: endpoints.kafkaBrokers.join(','),
        SCHEMA_REGISTRY_URL: endpoints.schemaRegistryUrl,
        MILLRACE_LOG_LEVEL: 'warn',
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  let [cpu, output] = [0, ''];
  const peaks: number[] = [];
  child.stdout.on('data', (data: Buffer) => {
    output += data.toString();
  });
  const watching = watch(child, (pid) => {
    cpu = Math.max(cpu, cpuSecondsOf(pid));
    peaks.push(Math.max(peaks.at(-1) ?? 0, peakMemoryMbOf(pid)));
  });
  const [code] = (await once(child, 'exit')) as [number];
  await watching;
  if (code !== 0) throw new Error(`The rebuild ended with ${code}: ${output}`);
  const [report] = JSON.parse(output) as Report[];
  if (!report) throw new Error('The rebuild told nothing');
  const { events, replaySeconds, seconds, comparison, outcome } = report;
  console.log(
    `rebuild from the journal: ${rateText(events, replaySeconds)} while replaying, ${seconds.toFixed(1)} s to the swap (${outcome}, ${comparison.rows} rows compared, ${comparison.differences} differences)`,
  );
  console.log(
    `CPU s per 100 k: rebuild ${per100k(events, cpu)}, PostgreSQL ${per100k(events, cpuSecondsOfTree(pids.postgres) - postgres)}; peak memory ${peaks.at(-1)} MB, ${peaks[Math.floor(peaks.length / 2)]} MB after half of the time`,
  );
};

/** What a process has used is known only while it lives. */
const watch = async (child: ChildProcess, look: (pid: number) => void): Promise<void> => {
  while (child.exitCode === null && child.pid !== undefined) {
    try {
      look(child.pid);
    } catch {
      return;
    }
    await pause(50);
  }
};
