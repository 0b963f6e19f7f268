import { expect } from 'chai';
import type { StreamOptions } from '../../../src/streams/event-time.ts';
import type { Windowed } from '../../../src/streams/kstream.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import type { TopologyTestDriver } from '../../../src/streams/testing/topology-test-driver.ts';
import { session, tumbling } from '../../../src/streams/windows.ts';
import { asRecord, driverOf, type Fact, fact, facts, specTopology } from '../../support/json-stream.ts';

const counts = { table: 'counts', keyColumn: 'id', columns: ['seen'] } as const satisfies CounterTable;
const byWindow = {
  table: 'by_window',
  keyColumn: 'id',
  windowColumn: 'window_start',
  columns: ['seen'],
} as const satisfies CounterTable;

const hourMs = 3_600_000;
const nowMs = 100 * hourMs;
const windows = tumbling({ sizeMs: 100, graceMs: 20 });

/** Counts, counts by window and windows that are handed on, over one stream. */
const counting = (options?: StreamOptions<Fact>) => {
  const emitted: Windowed<number>[] = [];
  let early = 0;
  const driver = driverOf(
    (t) => {
      const stream = t.stream(facts, options);
      stream.groupByKey().count(counts, 'seen', { action: 'SEEN' });
      stream.groupByKey().windowedBy(windows).count(byWindow, 'seen', { action: 'SEEN' });
      stream
        .groupByKey()
        .windowedBy(windows)
        .aggregate('sums', { initial: 0, fold: (sum, { amount }) => sum + amount })
        .peek((window) => emitted.push(window));
    },
    {
      startMs: nowMs,
      observer: {
        applied: (told) => {
          early += told.early;
        },
      },
    },
  );
  return { driver, emitted, early: () => early };
};

const sendAt = (driver: TopologyTestDriver, ...times: readonly number[]): void => {
  for (const time of times) driver.send('facts', asRecord(fact({ time })));
};

describe('event time', () => {
  it('that lies too far in the future leaves the clock alone: nothing that comes later is late', async () => {
    const { driver, emitted, early } = counting();
    sendAt(driver, nowMs + 10, nowMs + 1000 * hourMs, nowMs + 20, nowMs + 30);
    await driver.run();
    sendAt(driver, nowMs + 40);
    await driver.run();
    sendAt(driver, nowMs + 150);
    await driver.run();
    expect(emitted).to.deep.equal([
      { key: 'a', startMs: nowMs, endMs: nowMs + 100, value: 4, isFinal: true },
    ]);
    expect(driver.lateRecords).to.equal(0);
    // It is counted where no window is asked for, told as early, and in no window.
    expect(driver.table('counts')).to.deep.equal([{ id: 'a', seen: 6 }]);
    expect(driver.table('by_window')).to.deep.equal([
      { id: 'a', window_start: nowMs, seen: 4 },
      { id: 'a', window_start: nowMs + 100, seen: 1 },
    ]);
    expect(early()).to.equal(1);
    expect(driver.store.earlyRecords).to.equal(1);
  });

  it('may be as far ahead of the broker as the stream says, and not a millisecond more', async () => {
    const { driver } = counting({ futureMaxMs: 500 });
    sendAt(driver, nowMs + 500, nowMs + 501);
    await driver.run();
    expect(driver.store.earlyRecords).to.equal(1);
    expect(driver.table('by_window')).to.deep.equal([{ id: 'a', window_start: nowMs + 500, seen: 1 }]);
  });

  it('is judged by the record, so that a restart and another reading give the same', async () => {
    const { driver } = counting();
    sendAt(driver, nowMs + 2 * hourMs);
    driver.passTime(10 * hourMs);
    await driver.run();
    driver.restart();
    driver.rewind();
    driver.redeliver();
    await driver.run();
    expect(driver.store.earlyRecords).to.equal(1);
  });

  it('stays too early behind operators and versions', async () => {
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .inOrder('order', { version: ({ amount }) => amount })
          .pipe('same', (records) => records)
          .groupByKey()
          .windowedBy(session({ gapMs: 50, graceMs: 0 }))
          .aggregate('sums', {
            initial: 0,
            fold: (sum, { amount }) => sum + amount,
            merge: (one, other) => one + other,
          });
      },
      { startMs: nowMs },
    );
    driver.send('facts', asRecord(fact({ time: nowMs + 99 * hourMs, amount: 2 })));
    await driver.run();
    driver.send('facts', asRecord(fact({ time: nowMs, amount: 1 })));
    await driver.run();
    expect([...driver.store.statesOf('sums').values()]).to.deep.equal([
      [{ startMs: nowMs, endMs: nowMs + 50, value: 1 }],
    ]);
    expect(driver.lateRecords).to.equal(0);
  });

  it('comes from an extractor where the stream has one; a value without a time fails', async () => {
    const { driver, emitted } = counting({
      time: ({ amount }) => (amount > 900 ? Number.NaN : nowMs + amount),
    });
    const send = (amount: number): void =>
      void driver.send('facts', asRecord(fact({ time: nowMs - 5 * hourMs, amount })));
    send(10);
    send(50);
    send(901);
    send(130);
    await driver.run();
    expect(emitted).to.deep.equal([
      { key: 'a', startMs: nowMs, endMs: nowMs + 100, value: 60, isFinal: true },
    ]);
    expect(driver.deadLetters.map(({ error }) => error.message)).to.deep.equal([
      'The time of a record of facts must be a whole number of milliseconds, and is NaN',
    ]);
  });

  it('of one topic is told in one way', () => {
    expect(() =>
      specTopology((t) => {
        t.stream(facts, { futureMaxMs: 5 });
        t.stream(facts, { futureMaxMs: 6 });
      }),
    ).to.throw('facts is read twice with different times');
    expect(() => specTopology((t) => t.stream(facts, { futureMaxMs: -1 }))).to.throw('futureMaxMs');
    expect(() =>
      specTopology((t) => {
        t.stream(facts);
        t.stream(facts);
      }),
    ).not.to.throw();
  });
});
