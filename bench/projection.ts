import { setTimeout as pause } from 'node:timers/promises';
import type { Endpoints } from '../src/infra/infrastructure.ts';
import type { Database } from '../src/postgres/database.ts';
import { fillTopics, type Totals } from './projection/backlog.ts';
import {
  consumeOnly,
  createReferenceTables,
  decodeOnly,
  dedupOnly,
  oneTransactionPerEvent,
  upsertOnly,
} from './projection/references.ts';
import { benchKafka, benchRegistry, benchLog as log, openBenchDatabase } from './support/clients.ts';
import { cpuSecondsOf, cpuSecondsOfTree, peakMemoryMbOf } from './support/process-cost.ts';
import { type ServerPids, startRole, withServers } from './support/servers.ts';

const eventsDefault = 1_000_000;

/**
 * The projector as a process of its own on a backlog: 35 % likes, 5 % of them taken back, 50 % views, 10 % paid orders, one
 * in a hundred delivered twice, products skewed. From its first record to exact counts; beside it what the parts can do alone, and one transaction per event.
 */
export const run = ([count]: readonly string[]): Promise<void> =>
  withServers(async (endpoints, pids) => {
    const events = count === undefined ? eventsDefault : Number(count);
    const kafka = benchKafka(endpoints);
    const registry = benchRegistry(endpoints);
    // Started once and stopped, so that tables and topics are there.
    await (await startRole('projector', endpoints)).stop();
    const db = openBenchDatabase(endpoints.databaseUrl, 2);
    try {
      const expected = await fillTopics(kafka, registry, events);
      await measureProjector(endpoints, pids, db, expected);
      await consumeOnly(kafka, expected.records);
      await decodeOnly(kafka, registry, log);
      await createReferenceTables(db);
      await dedupOnly(db);
      await upsertOnly(db);
      await oneTransactionPerEvent(kafka, registry, db);
    } finally {
      await db.close();
    }
  });

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

/** Only the statistic: the other projections of a process would share its time. V8's bound is that of docker-compose.yml. */
const onlyStatistic = {
  MILLRACE_PROJECTIONS: 'product-statistic',
  NODE_OPTIONS: '--max-semi-space-size=16',
};

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
