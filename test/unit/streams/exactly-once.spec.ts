import { expect } from 'chai';
import fc from 'fast-check';
import { v7 as uuidv7 } from 'uuid';
import type { StateStore } from '../../../src/streams/ports.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../src/streams/testing/memory-state-store.ts';
import {
  createRandom,
  type Reader,
  TopologyTestDriver,
} from '../../../src/streams/testing/topology-test-driver.ts';
import { asRecord, type Fact, fact, facts, jsonDecoder, specTopology } from '../../support/json-stream.ts';

const counts = {
  table: 'counts',
  keyColumn: 'id',
  columns: ['seen', 'sold'],
} as const satisfies CounterTable;

const built = specTopology((t) => {
  const stream = t.stream(facts);
  stream.groupByKey().count(counts, 'seen', { action: 'SEEN' });
  stream
    .groupBy(({ of }) => of)
    .sum(counts, 'sold', ({ amount }) => amount, {
      action: 'SOLD',
      once: ({ kind }) => ({ aggregateType: 'Order', aggregateId: kind }),
    });
  stream
    .groupByKey()
    .aggregate('last', { initial: { sum: 0 }, fold: ({ sum }, { amount }) => ({ sum: sum * 3 + amount }) })
    .toStream()
    .to({ name: 'changes' }, ({ sum }) => sum);
});

/** What must come out, whatever happens on the way: the fold of the distinct events in their order. */
const expected = (sent: readonly Fact[]) => {
  const seen = new Map<string, number>();
  const sold = new Map<string, number>();
  const last = new Map<string, number>();
  const told = new Set<string>();
  for (const { of, kind, amount } of sent) {
    seen.set(of, (seen.get(of) ?? 0) + 1);
    last.set(of, (last.get(of) ?? 0) * 3 + amount);
    if (!told.has(kind)) sold.set(of, (sold.get(of) ?? 0) + amount);
    told.add(kind);
  }
  return { seen: asObject(seen), sold: asObject(sold), last: asObject(last), derived: sent.length };
};

const asObject = (map: ReadonlyMap<string, number>): Record<string, number> =>
  Object.fromEntries([...map].filter(([, value]) => value !== 0).sort());

const found = (store: MemoryStateStore) => {
  const rows = store.rowsOf('counts');
  const column = (name: string) => new Map(rows.map((row) => [String(row.id), Number(row[name])]));
  const last = new Map(
    [...store.statesOf('last')].map(([key, value]) => [key, (value as { sum: number }).sum]),
  );
  return {
    seen: asObject(column('seen')),
    sold: asObject(column('sold')),
    last: asObject(last),
    derived: store.derived.length,
  };
};

class Crash extends Error {}

const isCrash = (error: unknown): boolean =>
  error instanceof Crash || (error instanceof Error && error.cause instanceof Crash);

/** Kills whoever is at work. */
interface Killer {
  kill(): void;
}

interface Faults {
  readonly withoutDedup?: boolean;
  readonly withoutFence?: boolean;
}

/** Fails between any two calls, before or after what was called, and kills the process half of the time. */
const crashing = (
  store: MemoryStateStore,
  { random, faults, killer }: { random: () => number; faults: Faults; killer: Killer },
): StateStore => {
  const crash = (when: string): never => {
    if (random() < 0.5) killer.kill();
    throw new Crash(when);
  };
  const perhaps = async <T>(work: () => Promise<T>): Promise<T> => {
    if (random() < 0.08) crash('before');
    const result = await work();
    if (random() < 0.08) crash('after');
    return result;
  };
  return {
    loadPlaces: (...given) => perhaps(() => store.loadPlaces(...given)),
    loadHandled: (...given) =>
      perhaps(async () => (faults.withoutDedup ? given[1].map(() => []) : store.loadHandled(...given))),
    loadStates: (...given) => perhaps(() => store.loadStates(...given)),
    findDue: (...given) => perhaps(() => store.findDue(...given)),
    commit: (batch) =>
      perhaps(async () => {
        if (!faults.withoutFence) return store.commit(batch);
        const stored = await store.loadPlaces(batch.projection, batch.moves);
        const moves = batch.moves.map((move, index) => ({
          ...move,
          expectedOffset: stored[index]?.checkpoint?.nextOffset,
        }));
        return store.commit({ ...batch, moves });
      }),
  };
};

/**
 * Several processes at once that believe in the same places, killed at any moment, records delivered again and topics read
 * from the beginning: all in an order that the seed decides.
 */
const live = async (seed: number, faults: Faults = {}) => {
  const random = createRandom(seed);
  const store = new MemoryStateStore();
  let atWork: Reader | undefined;
  const killer = { kill: () => atWork?.kill() };
  const driver = new TopologyTestDriver({
    topology: built,
    decoder: jsonDecoder,
    store,
    seenStore: crashing(store, { random, faults, killer }),
    seed,
    // So little memory that handled ids are forgotten and have to be found in the store again.
    settings: { handledIdsMax: 10, statesMax: 2 },
  });
  const sent: Fact[] = [];
  const readers: Reader[] = [driver.newReader()];

  const send = (): void => {
    const [of] = [`k${Math.floor(random() * 4)}`];
    const value = fact({
      id: uuidv7(),
      of,
      kind: `${of}-${Math.floor(random() * 5)}`,
      amount: 1 + Math.floor(random() * 9),
      time: Math.floor(random() * 40_000),
    });
    sent.push(value);
    driver.send('facts', asRecord(value));
  };
  /** A lane never gives up by itself: it goes on until it has settled its rounds, or is killed and replaced. */
  const step = async (index: number): Promise<void> => {
    const reader = readers[index];
    if (!reader) return;
    atWork = reader;
    try {
      await reader.step();
    } catch (error) {
      if (!isCrash(error)) throw error;
      readers[index] = driver.newReader();
    }
  };

  for (let turn = 0; turn < 60; turn++) {
    const chance = random();
    const index = Math.floor(random() * readers.length);
    if (chance < 0.4) send();
    else if (chance < 0.45) driver.redeliver();
    else if (chance < 0.5 && readers.length < 3) readers.push(driver.newReader());
    else if (chance < 0.55) readers[index] = driver.newReader();
    else if (chance < 0.6) readers[index]?.rewind();
    else await step(index);
    if (turn === 30) driver.redeliver();
  }
  return { driver, store, sent };
};

const settled = async (seed: number, faults: Faults = {}) => {
  const { driver, store, sent } = await live(seed, faults);
  // In the end all is well again, and one process is left.
  const last = new TopologyTestDriver({ topology: built, decoder: jsonDecoder, store, seed });
  driver.copyLogTo(last);
  await last.run();
  return { found: found(store), expected: expected(sent) };
};

const agrees = async (seed: number, faults?: Faults): Promise<boolean> => {
  const result = await settled(seed, faults);
  return JSON.stringify(result.found) === JSON.stringify(result.expected);
};

describe('exactly once', function () {
  this.timeout(120_000);

  it('holds for any interleaving, redelivery, rewind, crash and zombie (1,000 seeds)', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 2 ** 31 }), async (seed) => {
        const result = await settled(seed);
        expect(result.found).to.deep.equal(result.expected);
      }),
      { numRuns: 1000 },
    );
  });

  const findCounterexample = async (faults: Faults): Promise<boolean> => {
    for (let seed = 1; seed <= 200; seed++) if (!(await agrees(seed, faults))) return true;
    return false;
  };

  it('does not hold without the handled ids', async () => {
    expect(await findCounterexample({ withoutDedup: true })).to.equal(true);
  });

  it('does not hold without the fence', async () => {
    expect(await findCounterexample({ withoutFence: true })).to.equal(true);
  });
});
