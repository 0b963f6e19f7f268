import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { createWriterSchemas } from '../../src/journal/writer-schemas.ts';
import { PublishError } from '../../src/kafka/publish-error.ts';
import type { OutgoingRecord, RecordProducer } from '../../src/kafka/record-producer.ts';
import type { Database } from '../../src/postgres/database.ts';
import type { SchemaRegistry } from '../../src/registry/schema-registry.ts';
import { createBrokerReach } from '../../src/relay/broker-reach.ts';
import { CircuitBreaker } from '../../src/relay/circuit-breaker.ts';
import { createCursorSource } from '../../src/relay/cursor-source.ts';
import { createDeadLetterNet, type DeadLetterNet } from '../../src/relay/dead-letters.ts';
import type { Relay } from '../../src/relay/loop.ts';
import { processClock } from '../../src/relay/monotonic-clock.ts';
import type { PublishPorts } from '../../src/relay/publish-page.ts';
import { type RelayOptions, startRelay } from '../../src/relay/relay.ts';
import { createRelayControl } from '../../src/relay/relay-control.ts';
import type { RelayObserver } from '../../src/relay/relay-observer.ts';
import { type RetrySettings, startRetryRelay } from '../../src/relay/retry-relay.ts';
import { startShardKeeper } from '../../src/relay/shard-keeper.ts';

export interface MemoryBroker {
  /** Keys of the records it has, in the order they came. */
  readonly keys: string[];
  readonly values: (Buffer | null)[];
  readonly producer: RecordProducer;
  /** What it does with records before it has them; it may take its time. */
  setMood(mood: Mood): void;
}

type Mood = (records: readonly ReceivedRecord[]) => void | Promise<void>;

/** A record as a broker sees it. */
export interface ReceivedRecord {
  readonly key: string | null;
  readonly value: Buffer | null;
}

export const received = (record: OutgoingRecord): ReceivedRecord => {
  if (!('bytes' in record)) return { key: record.key && String(record.key), value: record.value };
  const { bytes, keyStart, keyEnd, valueStart, valueEnd, shape } = record;
  const value = bytes.subarray(valueStart, valueEnd);
  return {
    key: bytes.toString('utf8', keyStart, keyEnd),
    value: shape.valuePrefix ? Buffer.concat([shape.valuePrefix, value]) : value,
  };
};

/** As the real producer does: what has no answer by then is given up, and nothing of it arrives later. */
const inTime = async (answered: void | Promise<void>, timeoutMs: number | undefined): Promise<void> => {
  if (timeoutMs === undefined || !answered) return answered;
  const over = new AbortController();
  const gaveUp = sleep(timeoutMs, undefined, { signal: over.signal }).then(() => {
    throw brokerTrouble();
  });
  await Promise.race([answered, gaveUp]).finally(() => over.abort());
};

/** A broker in memory whose moods a test decides; the real one has its turn in other specs. */
export const createMemoryBroker = (): MemoryBroker => {
  const keys: string[] = [];
  const values: (Buffer | null)[] = [];
  let mood: Mood = () => {};
  const send: RecordProducer['send'] = async (batches, { timeoutMs } = {}) => {
    for (const given of batches.values()) {
      const records = given.map(received);
      await inTime(mood(records), timeoutMs);
      keys.push(...records.map(({ key }) => String(key)));
      values.push(...records.map(({ value }) => value));
    }
  };
  return {
    keys,
    values,
    producer: {
      send,
      prepare: (batches) => ({ send: (options) => send(batches, options) }),
      renew: async () => {},
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

const mainSettings = {
  pollIntervalMs: 20,
  batchSizeMax: 5,
  retryDelayMs: 20,
  leaseMs: 1000,
  suspectAfterDeaths: 3,
};
const retrySettings: RetrySettings = {
  retryIntervalMs: 20,
  retryBatchSizeMax: 50,
  retriesMax: 3,
  backoffBaseMs: 1,
  backoffMaxMs: 5,
  retryLeaseMs: 1000,
  suspectAfterDeaths: 3,
};
const breakerSettings = { windowCalls: 10, callsMin: 5, failureRatePercent: 50, openMs: 200, trialCalls: 3 };

/** Relays of one spec, stopped after each test. */
export const useRelays = (
  database: () => Database,
  log: Logger,
  observer?: RelayObserver,
  { publishTimeoutMs = 5000 }: { readonly publishTimeoutMs?: number } = {},
) => {
  const running: Relay[] = [];
  const directory = mkdtempSync(join(tmpdir(), 'millrace-relay-'));
  const backupFile = join(directory, 'dead', 'letters.jsonl');
  afterEach(async () => {
    for (const relay of running.splice(0)) await relay.stop();
  });
  after(() => rmSync(directory, { recursive: true, force: true }));

  const control = createRelayControl(log);
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
      publishTimeoutMs,
      headersOf: () => undefined,
      ...(observer && { observer }),
    };
    return {
      database: database(),
      publishing,
      deadLetters: deadLetters ?? createDeadLetterNet({ database: database(), backupFile, log }),
      holder,
      control,
      log,
    };
  };
  const keep = (relay: Relay): Relay => {
    running.push(relay);
    return relay;
  };
  return {
    backupFile,
    /** As the relay role does when it hears of it. */
    reconsider: (): void => {
      control.notice();
      for (const relay of running) relay.wake();
    },
    startMain: (holder: string, broker: MemoryBroker, deadLetters?: DeadLetterNet): Relay =>
      keep(
        startRelay({
          ...common(broker, holder, deadLetters),
          source: createCursorSource(database()),
          settings: mainSettings,
        }),
      ),
    /** Another source than the table. */
    startReading: (
      holder: string,
      broker: MemoryBroker,
      source: Pick<RelayOptions, 'source' | 'onLease' | 'wakeSignal'>,
    ): Relay => keep(startRelay({ ...common(broker, holder), ...source, settings: mainSettings })),
    /** As the relay role does it: as many shards as are its share. */
    startShards: (
      holder: string,
      broker: MemoryBroker,
      /** How many brokers answer it; without it, it takes part whatever happens. */
      countReachable?: () => Promise<number>,
    ): Relay => {
      const parts = {
        ...common(broker, holder),
        ...(countReachable && { control: createRelayControl(log) }),
      };
      const { publishing, control: own } = parts;
      const reach = countReachable && {
        brokers: createBrokerReach({
          breaker: publishing.breaker,
          countReachable,
          handOverAfterMs: 200,
          control: own,
          clock: processClock,
          log,
        }),
      };
      return keep(
        startShardKeeper({
          database: database(),
          holder,
          leaseMs: mainSettings.leaseMs,
          startShard: async (shard, onLeaseLost) =>
            startRelay({
              ...parts,
              source: createCursorSource(database(), shard),
              shard,
              onLeaseLost,
              settings: mainSettings,
            }),
          ...reach,
          log,
        }),
      );
    },
    startRetry: (
      holder: string,
      broker: MemoryBroker,
      settings: Partial<RetrySettings> = {},
      registry: Partial<SchemaRegistry> = {},
    ): Relay => {
      const { publishing, ...rest } = common(broker, holder);
      const ports = { ...publishing, registry: { ...publishing.registry, ...registry } };
      return keep(
        startRetryRelay({ ...rest, publishing: ports, settings: { ...retrySettings, ...settings } }),
      );
    },
  };
};
