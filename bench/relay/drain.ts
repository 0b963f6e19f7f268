import { setTimeout as pause } from 'node:timers/promises';
import { type Admin, Kafka, logLevel } from 'kafkajs';
import { createAnnouncer } from '../../src/journal/announce-events.ts';
import { cpuSecondsOf, cpuSecondsOfTree, peakMemoryMbOf } from '../support/process-cost.ts';
import { type Started, startRole } from '../support/servers.ts';
import { fillOutbox } from './outbox-rows.ts';
import { endOffset, untilQuiet } from './quiet-topic.ts';
import type { RelayBench } from './relay-bench.ts';

const rows = 300_000;
const offsetsPollMs = 25;

export interface DrainSetup {
  readonly title: string;
  readonly env: NodeJS.ProcessEnv;
  readonly relays?: number;
}

/** A backlog from its commit to its last record in the topic; then another one, by the relay that is warm by now. */
export const drain = async (bench: RelayBench, { title, env, relays = 1 }: DrainSetup): Promise<void> => {
  const { endpoints } = bench;
  const started: Started[] = [];
  const admin = new Kafka({ brokers: [...endpoints.kafkaBrokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  try {
    for (let relay = 0; relay < relays; relay++) started.push(await startRole('relay', endpoints, env));
    const pids = started.map(({ child }) => child.pid ?? 0);
    await untilQuiet(admin);
    for (const state of ['fresh', 'warm'])
      console.log(`drain, ${title}, ${state}: ${await drainOnce(bench, admin, pids)}`);
  } finally {
    for (const relay of started) await relay.stop();
    await admin.disconnect();
  }
};

const drainOnce = async (bench: RelayBench, admin: Admin, relays: readonly number[]): Promise<string> => {
  const { db, pids, log } = bench;
  const cpuSeconds = () => ({
    relay: relays.reduce((sum, pid) => sum + cpuSecondsOf(pid), 0),
    PostgreSQL: cpuSecondsOfTree(pids.postgres),
    broker: cpuSecondsOf(pids.broker),
  });
  const offsetBefore = await endOffset(admin);
  await fillOutbox(db, rows);
  const before = cpuSeconds();
  const start = performance.now();
  createAnnouncer(db, { intervalMs: 10, log }).announce();
  let published = 0;
  while (published < rows) {
    await pause(offsetsPollMs);
    published = (await endOffset(admin)) - offsetBefore;
  }
  const seconds = (performance.now() - start) / 1000;
  await pause(500);
  const after = cpuSeconds();
  if ((await endOffset(admin)) - offsetBefore !== rows) throw new Error('There are more records than rows');
  const per100k = (name: keyof typeof after): string =>
    `${name} ${(((after[name] - before[name]) / rows) * 100_000).toFixed(2)}`;
  const memory = relays.map((pid) => `${peakMemoryMbOf(pid)} MB`).join(' + ');
  return (
    `${Math.round(rows / seconds).toLocaleString('en-US')} events/s; CPU s per 100 k: ` +
    `${per100k('relay')}, ${per100k('PostgreSQL')}, ${per100k('broker')}; peak ${memory}`
  );
};
