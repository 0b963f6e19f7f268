import { expect } from 'chai';
import fc from 'fast-check';
import type { Windowed } from '../../../src/streams/kstream.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import type { DriverOptions, TopologyTestDriver } from '../../../src/streams/testing/topology-test-driver.ts';
import { type SlidingWindows, sliding } from '../../../src/streams/windows.ts';
import { asRecord, driverOf, type Fact, fact, facts } from '../../support/json-stream.ts';

const idsOf = {
  initial: [] as readonly string[],
  fold: (ids: readonly string[], { kind }: Fact) => [...ids, kind],
};

const build = (windows: SlidingWindows, options: Partial<DriverOptions> = {}): TopologyTestDriver =>
  driverOf(
    (t) => {
      t.stream(facts)
        .groupByKey()
        .windowedBy(windows)
        .aggregate('sliding', idsOf)
        .to({ name: 'results' }, (window) => window);
    },
    { partitions: 1, ...options },
  );

/** Every record is called after its place in the order of arrival. */
const send = (driver: TopologyTestDriver, times: readonly number[], from = 0): void => {
  for (const [index, time] of times.entries()) {
    driver.send('facts', asRecord(fact({ time, kind: `${from + index}` })));
  }
};

const told = (driver: TopologyTestDriver): readonly string[] =>
  driver.output
    .map(({ value }) => value as Windowed<readonly string[]>)
    .sort((a, b) => a.startMs - b.startMs)
    .map(({ startMs, endMs, value }) => `[${startMs}, ${endMs}] ${value.join(' ')}`);

interface Accepted {
  readonly index: number;
  readonly timeMs: number;
  /** How far the stream was when it came. */
  readonly streamMs: number;
}

/** From the definition alone: every window that records define, each looked at by itself, over all records. */
const expected = (times: readonly number[], { differenceMs, graceMs }: SlidingWindows) => {
  const closesAt = (startMs: number): number => startMs + differenceMs + graceMs + 1;
  const isIn = (startMs: number, timeMs: number): boolean =>
    timeMs >= startMs && timeMs <= startMs + differenceMs;
  const startsOf = (records: readonly Accepted[]): ReadonlySet<number> =>
    new Set(records.flatMap(({ timeMs }) => [timeMs - differenceMs, timeMs + 1]));

  const accepted: Accepted[] = [];
  let streamMs = Number.NEGATIVE_INFINITY;
  let late = 0;
  for (const [index, timeMs] of times.entries()) {
    streamMs = Math.max(streamMs, timeMs);
    const record = { index, timeMs, streamMs };
    const isTaken = [...startsOf([...accepted, record])].some(
      (startMs) => isIn(startMs, timeMs) && closesAt(startMs) > record.streamMs,
    );
    if (isTaken) accepted.push(record);
    else late++;
  }
  const windows = [...startsOf(accepted)].flatMap((startMs) => {
    const own = accepted.filter(
      (record) => isIn(startMs, record.timeMs) && record.streamMs < closesAt(startMs),
    );
    const definers = accepted.filter(
      ({ timeMs }) => timeMs - differenceMs === startMs || timeMs + 1 === startMs,
    );
    // It is there from when somebody defines it and something is in it; by then it must be open.
    const [first] = own;
    const [definer] = definers;
    if (!first || !definer) return [];
    const begins = first.index > definer.index ? first : definer;
    return begins.streamMs < closesAt(startMs) ? [{ startMs, own }] : [];
  });
  return {
    late,
    windows: windows
      .sort((a, b) => a.startMs - b.startMs)
      .map(
        ({ startMs, own }) =>
          `[${startMs}, ${startMs + differenceMs}] ${own.map(({ index }) => index).join(' ')}`,
      ),
  };
};

describe('sliding windows', () => {
  it('are one for every different set of records that lie close together', async () => {
    const driver = build(sliding({ differenceMs: 10, graceMs: 0 }));
    send(driver, [100, 108, 112]);
    await driver.run();
    await driver.advanceWallClock(1000);
    expect(told(driver)).to.deep.equal([
      '[90, 100] 0',
      '[98, 108] 0 1',
      '[101, 111] 1',
      '[102, 112] 1 2',
      '[109, 119] 2',
    ]);
  });

  it('have both ends in them, also without grace', async () => {
    const driver = build(sliding({ differenceMs: 10, graceMs: 0 }));
    send(driver, [100, 110, 121]);
    await driver.run();
    await driver.advanceWallClock(1000);
    expect(told(driver)).to.deep.equal(['[90, 100] 0', '[100, 110] 0 1', '[101, 111] 1', '[111, 121] 2']);
  });

  it('take what comes later within the grace into every window that it belongs to, and count what is beyond', async () => {
    const windows = sliding({ differenceMs: 10, graceMs: 20 });
    const driver = build(windows);
    send(driver, [100, 115, 108, 160, 104]);
    await driver.run();
    await driver.advanceWallClock(1000);
    expect(told(driver)).to.deep.equal([
      '[90, 100] 0',
      '[98, 108] 0 2',
      '[101, 111] 2',
      '[105, 115] 1 2',
      '[109, 119] 1',
      '[150, 160] 3',
    ]);
    expect(driver.lateRecords).to.equal(1);
    expect(driver.store.missed.size).to.equal(1);
  });

  it('are not opened again where the wall clock has closed them', async () => {
    const driver = build(sliding({ differenceMs: 10, graceMs: 5 }));
    send(driver, [100]);
    await driver.run();
    await driver.advanceWallClock(1000);
    expect(driver.store.statesOf('sliding').size, 'nothing is left of the key').to.equal(0);
    send(driver, [105], 1);
    await driver.run();
    await driver.advanceWallClock(1000);
    expect(told(driver)).to.deep.equal(['[90, 100] 0']);
    expect(driver.lateRecords).to.equal(1);
  });

  it('keep no more records of a key than they may: one more fails, and the next one does not', async () => {
    const driver = build(sliding({ differenceMs: 10, graceMs: 0, recordsMax: 3 }));
    send(driver, [100, 101, 102, 103, 130]);
    await driver.run();
    await driver.advanceWallClock(1000);
    expect(
      driver.deadLetters.map(({ record, error }) => [record.offset, error.message.slice(0, 47)]),
    ).to.deep.equal([[3, '3 records of a are kept for the sliding windows']]);
    expect(told(driver)).to.include('[120, 130] 4');
  });

  it('cannot be counted into rows by their start', () => {
    const counts = {
      table: 'counts',
      keyColumn: 'id',
      windowColumn: 'window_start',
      columns: ['seen'],
    } as const satisfies CounterTable;
    expect(() =>
      driverOf((t) => {
        t.stream(facts)
          .groupByKey()
          .windowedBy(sliding({ differenceMs: 10, graceMs: 0 }))
          .count(counts, 'seen', { action: 'SEEN' });
      }),
    ).to.throw('no fixed start');
    expect(() => sliding({ differenceMs: 0, graceMs: 0 })).to.throw('differenceMs');
    expect(() => sliding({ differenceMs: 1, graceMs: 0, recordsMax: 0 })).to.throw('recordsMax');
  });

  it('are what their definition says, for any records, grace, batching and restarts', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 120 }), { minLength: 1, maxLength: 25 }),
        fc.record({
          differenceMs: fc.integer({ min: 1, max: 30 }),
          graceMs: fc.integer({ min: 0, max: 40 }),
        }),
        fc.integer({ min: 1, max: 100_000 }),
        async (times, options, seed) => {
          const windows = sliding(options);
          const driver = build(windows, { seed });
          for (const [index, time] of times.entries()) {
            send(driver, [time], index);
            if ((seed + index) % 3 === 0) await driver.run();
            if ((seed + index) % 7 === 0) driver.restart();
          }
          await driver.run();
          await driver.advanceWallClock(10_000);
          expect({ late: driver.lateRecords, windows: told(driver) }).to.deep.equal(expected(times, windows));
          expect(driver.store.statesOf('sliding').size).to.equal(0);
        },
      ),
      { numRuns: 500 },
    );
  });
});
