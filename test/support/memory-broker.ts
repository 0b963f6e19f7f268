import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { createWriterSchemas } from '../../src/journal/writer-schemas.ts';
import { PublishError } from '../../src/kafka/publish-error.ts';
import type { OutgoingRecord, RecordProducer } from '../../src/kafka/record-producer.ts';
import type { Database } from '../../src/postgres/database.ts';
import { CircuitBreaker } from '../../src/relay/circuit-breaker.ts';
import { createCursorSource } from '../../src/relay/cursor-source.ts';
import { createDeadLetterNet, type DeadLetterNet } from '../../src/relay/dead-letters.ts';
import type { Relay } from '../../src/relay/loop.ts';
import type { PublishPorts } from '../../src/relay/publish-page.ts';
import { startRelay } from '../../src/relay/relay.ts';
import { type RetrySettings, startRetryRelay } from '../../src/relay/retry-relay.ts';

export interface MemoryBroker {
  /** Keys of the records it has, in the order they came. */
  readonly keys: (Buffer | string | null)[];
  readonly values: (Buffer | null)[];
  readonly producer: RecordProducer;
  setMood(mood: (records: readonly OutgoingRecord[]) => void): void;
}

/** A broker in memory whose moods a test decides; the real one has its turn in other specs. */
export const createMemoryBroker = (): MemoryBroker => {
  const keys: (Buffer | string | null)[] = [];
  const values: (Buffer | null)[] = [];
  let mood: (records: readonly OutgoingRecord[]) => void = () => {};
  return {
    keys,
    values,
    producer: {
      send: async (batches) => {
        for (const records of batches.values()) {
          mood(records);
          keys.push(...records.map(({ key }) => key));
          values.push(...records.map(({ value }) => value));
        }
      },
      close: async () => {},
    },
    setMood: (next) => {
      mood = next;
    },
  };
};

export const brokerTrouble = (): Error =>
  new PublishError('BROKER_UNAVAILABLE', { retriable: true, cause: new Error('connect ECONNREFUSED') });
export const recordRefused = (): Error =>
  new PublishError('RECORD_TOO_LARGE', { retriable: false, cause: new Error('message too large') });

const mainSettings = { pollIntervalMs: 20, batchSizeMax: 5, retryDelayMs: 20, leaseMs: 1000 };
const retrySettings: RetrySettings = {
  retryIntervalMs: 20,
  retryBatchSizeMax: 50,
  retriesMax: 3,
  backoffBaseMs: 1,
  backoffMaxMs: 5,
  retryLeaseMs: 1000,
};
const breakerSettings = { windowCalls: 10, callsMin: 5, failureRatePercent: 50, openMs: 200, trialCalls: 3 };

/** Relays of one spec, stopped after each test. */
export const useRelays = (database: () => Database, log: Logger) => {
  const running: Relay[] = [];
  const directory = mkdtempSync(join(tmpdir(), 'millrace-relay-'));
  const backupFile = join(directory, 'dead', 'letters.jsonl');
  afterEach(async () => {
    for (const relay of running.splice(0)) await relay.stop();
  });
  after(() => rmSync(directory, { recursive: true, force: true }));

  const common = (broker: MemoryBroker, holder: string, deadLetters?: DeadLetterNet) => {
    const publishing: PublishPorts = {
      producer: broker.producer,
      registry: { idOf: async () => 1, writerType: () => Promise.reject(new Error('not asked')) },
      schemas: createWriterSchemas(database()),
      physicalTopic: (topic) => topic,
      breaker: new CircuitBreaker({
        settings: breakerSettings,
        clock: Date.now,
        onChange: ({ from, to }) => log.warn(`circuit ${from} → ${to}`),
      }),
      publishTimeoutMs: 5000,
      headersOf: () => ({}),
    };
    return {
      database: database(),
      publishing,
      deadLetters: deadLetters ?? createDeadLetterNet({ database: database(), backupFile, log }),
      holder,
      log,
    };
  };
  const keep = (relay: Relay): Relay => {
    running.push(relay);
    return relay;
  };
  return {
    backupFile,
    startMain: (holder: string, broker: MemoryBroker, deadLetters?: DeadLetterNet): Relay =>
      keep(
        startRelay({
          ...common(broker, holder, deadLetters),
          source: createCursorSource(database()),
          settings: mainSettings,
        }),
      ),
    startRetry: (holder: string, broker: MemoryBroker, settings: Partial<RetrySettings> = {}): Relay =>
      keep(startRetryRelay({ ...common(broker, holder), settings: { ...retrySettings, ...settings } })),
  };
};
