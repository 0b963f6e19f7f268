import { Kafka, logLevel } from 'kafkajs';
import { createAnnouncer } from '../../src/journal/announce-events.ts';
import type { Database } from '../../src/postgres/database.ts';
import { cpuSecondsOf, cpuSecondsOfTree, peakMemoryMbOf } from '../support/process-cost.ts';
import { startRole } from '../support/servers.ts';
import { insertRow } from './outbox-rows.ts';
import { untilQuiet } from './quiet-topic.ts';
import type { RelayBench } from './relay-bench.ts';

const perSecond = 500;
const seconds = 30;
/** The first seconds are those of a relay that has just been compiled. */
const warmUpSeconds = 3;
const settleMs = 1500;
const announceIntervalMs = 10;

/** Single-row commits, evenly spread, each timed from its commit to a consumer. */
export const steady = async (
  bench: RelayBench,
  { title, env }: { title: string; env: NodeJS.ProcessEnv },
): Promise<void> => {
  const { endpoints, pids, db } = bench;
  const relay = await startRole('relay', endpoints, env);
  const relayPid = relay.child.pid ?? 0;
  const watch = await watchTopic(endpoints.kafkaBrokers);
  try {
    await commitEvenly(bench, watch, warmUpSeconds);
    watch.delaysMs.length = 0;
    const before = await costs(db, relayPid, pids);
    const startedAt = performance.now();
    await commitEvenly(bench, watch, seconds);
    const elapsed = (performance.now() - startedAt) / 1000;
    const after = await costs(db, relayPid, pids);
    await pause(settleMs);
    const share = (name: keyof typeof after): string =>
      `${(((after[name] - before[name]) / elapsed) * 100).toFixed(0)} %`;
    console.log(
      `steady ${perSecond}/s, ${title}: ${percentiles(watch.delaysMs)} (${watch.delaysMs.length} events in ` +
        `${elapsed.toFixed(1)} s); of a core: relay ${share('relay')}, its part of PostgreSQL ${share('relayBackends')} ` +
        `(all of PostgreSQL ${share('postgres')}, broker ${share('broker')}); peak ${peakMemoryMbOf(relayPid)} MB`,
    );
  } finally {
    await watch.stop();
    await relay.stop();
  }
};

/** What a relay that has nothing to do costs. */
export const idle = async (
  bench: RelayBench,
  { title, env }: { title: string; env: NodeJS.ProcessEnv },
): Promise<void> => {
  const { endpoints, pids, db } = bench;
  const relay = await startRole('relay', endpoints, env);
  const relayPid = relay.child.pid ?? 0;
  try {
    await pause(5000);
    const before = await costs(db, relayPid, pids);
    await pause(10_000);
    const after = await costs(db, relayPid, pids);
    const share = (name: keyof typeof after): string => `${((after[name] - before[name]) * 10).toFixed(1)} %`;
    console.log(
      `idle, ${title}: relay ${share('relay')} of a core, its part of PostgreSQL ${share('relayBackends')}; ` +
        `${peakMemoryMbOf(relayPid)} MB at most since its start`,
    );
  } finally {
    await relay.stop();
  }
};

interface Watch {
  readonly delaysMs: number[];
  noteCommit(eventId: string): void;
  stop(): Promise<void>;
}

const watchTopic = async (brokers: readonly string[]): Promise<Watch> => {
  const kafka = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING });
  const admin = kafka.admin();
  await admin.connect();
  await untilQuiet(admin);
  await admin.disconnect();
  const committedAt = new Map<string, number>();
  /** A consumer may see a record before its writer hears of the commit. */
  const seenFirst = new Set<string>();
  const delaysMs: number[] = [];
  const consumer = kafka.consumer({
    groupId: `bench-${process.pid}-${performance.now()}`,
    maxWaitTimeInMs: 250,
  });
  await consumer.connect();
  await consumer.subscribe({ topic: 'product-view-events', fromBeginning: false });
  const joined = new Promise((resolve) => consumer.on(consumer.events.GROUP_JOIN, resolve));
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      const now = performance.now();
      for (const { headers } of batch.messages) {
        const id = String(headers?.ce_id);
        const at = committedAt.get(id);
        if (at === undefined) seenFirst.add(id);
        else delaysMs.push(now - at);
        committedAt.delete(id);
      }
    },
  });
  await joined;
  return {
    delaysMs,
    noteCommit: (eventId) => {
      if (seenFirst.delete(eventId)) delaysMs.push(0);
      else committedAt.set(eventId, performance.now());
    },
    stop: () => consumer.disconnect(),
  };
};

/** As many API processes would: a commit when its time has come, whatever the ones before are doing. */
const commitEvenly = async ({ db, log }: RelayBench, watch: Watch, forSeconds: number): Promise<void> => {
  const announcer = createAnnouncer(db, { intervalMs: announceIntervalMs, log });
  const start = performance.now();
  const commits: Promise<void>[] = [];
  const commit = async (): Promise<void> => {
    const id = crypto.randomUUID();
    await insertRow(db, id);
    watch.noteCommit(id);
    announcer.announce();
  };
  while (commits.length < forSeconds * perSecond) {
    const due = Math.floor(((performance.now() - start) / 1000) * perSecond);
    while (commits.length < Math.min(due, forSeconds * perSecond)) commits.push(commit());
    await pause(1);
  }
  await Promise.all(commits);
};

const percentiles = (delaysMs: readonly number[]): string => {
  const sorted = delaysMs.toSorted((a, b) => a - b);
  return [0.5, 0.95, 0.99]
    .map(
      (share) => `p${share * 100} ${(sorted[Math.floor(sorted.length * share)] ?? Number.NaN).toFixed(1)} ms`,
    )
    .join(', ');
};

const backendsStatement = {
  name: 'relay-backends',
  text: `select pid from pg_stat_activity where application_name like 'millrace%'`,
};

const costs = async (db: Database, relayPid: number, pids: { postgres: number; broker: number }) => {
  const backends = await db.execute<{ pid: number }>(backendsStatement);
  return {
    relay: cpuSecondsOf(relayPid),
    relayBackends: backends.reduce((sum, { pid }) => sum + cpuSecondsOf(pid), 0),
    postgres: cpuSecondsOfTree(pids.postgres),
    broker: cpuSecondsOf(pids.broker),
  };
};

const pause = (timeMs: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, timeMs));
