import type { Logger } from 'pino';
import { createWriterSchemas } from '../../src/journal/writer-schemas.ts';
import type { RecordProducer } from '../../src/kafka/record-producer.ts';
import type { Database } from '../../src/postgres/database.ts';
import type { CircuitBreaker } from '../../src/relay/circuit-breaker.ts';
import type { DeadLetterNet } from '../../src/relay/dead-letters.ts';
import type { Relay } from '../../src/relay/loop.ts';
import type { MonotonicClock } from '../../src/relay/monotonic-clock.ts';
import type { OutboxPage, OutboxRow, OutboxSource } from '../../src/relay/outbox-source.ts';
import type { PageBudget } from '../../src/relay/page-budget.ts';
import { startRelay } from '../../src/relay/relay.ts';
import { viewOf } from './journal.ts';

/** Rows as the journal has them: the first version of each of these aggregates. */
export const rowsOf = (keys: readonly string[]): readonly OutboxRow[] =>
  keys.map((key, index) => {
    const { stream, version, occurredAt, ...event } = viewOf(key, 1);
    return { ...event, ...stream, id: index + 1, aggregateVersion: version, createdAt: occurredAt };
  });

export interface MemorySource extends OutboxSource {
  /** Pages that were asked for. */
  readonly asked: number;
  /** Keys of the rows that are passed. */
  readonly settled: readonly string[];
}

const askedMax = 10_000;

/** An outbox in memory, for relays whose lease is beyond doubt. */
export const createMemorySource = (rows: readonly OutboxRow[]): MemorySource => {
  let asked = 0;
  let passed = 0;
  const pageFrom = (from: number, rowsMax: number): OutboxPage | undefined => {
    const page = { rows: rows.slice(from, from + rowsMax) };
    return page.rows.length > 0 ? page : undefined;
  };
  const placeAfter = ({ rows: given }: OutboxPage): number => rows.indexOf(given.at(-1) as OutboxRow) + 1;
  return {
    nextPage: async (rowsMax) => {
      // Without it, a relay that asks without a pause would never let anything else have its turn.
      if (++asked > askedMax) throw new Error('Asked too often');
      return pageFrom(passed, rowsMax);
    },
    pageAfter: async (page, rowsMax) => pageFrom(placeAfter(page), rowsMax),
    settle: async (_page, count) => {
      passed += count;
      return true;
    },
    forget: () => {},
    close: async () => {},
    get asked() {
      return asked;
    },
    get settled() {
      return rows.slice(0, passed).map(({ partitionKey }) => partitionKey);
    },
  };
};

const noDeadLetters: DeadLetterNet = {
  keep: async () => {},
  counts: { stored: 0, backedUp: 0, onlyAlerted: 0 },
};

export interface MemoryRelayOptions {
  readonly database: Database;
  readonly source: OutboxSource;
  readonly producer: RecordProducer;
  readonly breaker: CircuitBreaker;
  readonly clock?: MonotonicClock;
  readonly pageBudget?: PageBudget;
  readonly holder: string;
  readonly publishTimeoutMs?: number;
  readonly log: Logger;
}

/** A relay all of whose ports are in memory. */
export const startMemoryRelay = (options: MemoryRelayOptions): Relay => {
  const { database, producer, breaker, publishTimeoutMs = 30_000 } = options;
  return startRelay({
    ...options,
    publishing: {
      producer,
      breaker,
      registry: { idOf: async () => 1, writerType: () => Promise.reject(new Error('not asked')) },
      schemas: createWriterSchemas(database),
      physicalTopic: (topic) => topic,
      publishTimeoutMs,
      headersOf: () => undefined,
    },
    deadLetters: noDeadLetters,
    settings: {
      pollIntervalMs: 1,
      batchSizeMax: 5,
      retryDelayMs: 1,
      leaseMs: 30_000,
      suspectAfterDeaths: 3,
    },
  });
};
