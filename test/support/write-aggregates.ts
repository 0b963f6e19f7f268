import { setTimeout as sleep } from 'node:timers/promises';
import { productId } from '../../src/domain/ids.ts';
import { appendEvents } from '../../src/journal/append-events.ts';
import type { SealedEvent } from '../../src/journal/seal-event.ts';
import type { Database } from '../../src/postgres/database.ts';
import { sealed, viewOf } from './journal.ts';

/** Versions of aggregates that lie in two topics and all their partitions. */
export const eventOf = (aggregateId: string, version: number): SealedEvent =>
  aggregateId.endsWith('-stock')
    ? sealed({ aggregateType: 'Product', aggregateId }, version, {
        type: 'StockAdjusted',
        productId: productId(aggregateId),
        delta: 1,
        reason: 'spec',
        stock: version,
      })
    : viewOf(aggregateId, version);

const aggregatesOf = (name: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `${name}-${index}${index % 2 === 0 ? '-stock' : ''}`);

/** The next version of one aggregate; now and then the writer thinks better of it first, or takes long to commit. */
const writeNext = async (db: Database, aggregateId: string, version: number): Promise<void> => {
  const event = eventOf(aggregateId, version);
  if (version % 5 === 0) {
    await db
      .transaction(async (tx) => {
        await appendEvents(tx, [eventOf(aggregateId, version)]);
        throw new Error('thought better of it');
      })
      .catch(() => undefined);
  }
  if (version % 3 !== 0) return appendEvents(db, [event]);
  await db.transaction(async (tx) => {
    await appendEvents(tx, [event]);
    await sleep(version % 10);
  });
};

/** Versions 1 to n of some aggregates, each from a writer of its own. */
export const writeAggregates = async (
  db: Database,
  { name, aggregates = 20, versions }: { name: string; aggregates?: number; versions: number },
): Promise<void> => {
  await Promise.all(
    aggregatesOf(name, aggregates).map(async (aggregateId) => {
      for (let version = 1; version <= versions; version++) await writeNext(db, aggregateId, version);
    }),
  );
};

export interface Writing {
  /** Comes back when the last event is committed. */
  stop(): Promise<void>;
}

/** Writers that go on at a steady, modest pace until told otherwise, so that there is always something on its way. */
export const useWriting = (database: () => Database) => {
  const begun: Writing[] = [];
  afterEach(async () => {
    for (const writing of begun.splice(0)) await writing.stop();
  });
  return {
    start: ({
      name,
      aggregates = 10,
      pauseMs = 40,
    }: {
      name: string;
      aggregates?: number;
      pauseMs?: number;
    }): Writing => {
      let isOver = false;
      const finished = Promise.all(
        aggregatesOf(name, aggregates).map(async (aggregateId) => {
          for (let version = 1; !isOver; version++) {
            await writeNext(database(), aggregateId, version);
            await sleep(pauseMs);
          }
        }),
      );
      // Whoever stops it hears of a failure; until then it must not count as unhandled.
      finished.catch(() => undefined);
      const writing = {
        stop: async () => {
          isOver = true;
          await finished;
        },
      };
      begun.push(writing);
      return writing;
    },
  };
};
