import { expect } from 'chai';
import type { Windowed } from '../../../src/streams/kstream.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import type { TopologyTestDriver } from '../../../src/streams/testing/topology-test-driver.ts';
import { hopping, session, tumbling, windowStarts } from '../../../src/streams/windows.ts';
import { asRecord, driverOf, type Fact, fact, facts } from '../../support/json-stream.ts';

const counts = {
  table: 'counts',
  keyColumn: 'id',
  windowColumn: 'window_start',
  columns: ['seen'],
} as const satisfies CounterTable;

const sums = { initial: 0, fold: (sum: number, { amount }: Fact) => sum + amount };

const sendAt = (driver: TopologyTestDriver, ...times: readonly (number | [number, string])[]): void => {
  for (const time of times) {
    const [at, of] = Array.isArray(time) ? time : [time, 'a'];
    driver.send('facts', asRecord(fact({ time: at, of })));
  }
};

describe('windows', () => {
  it('that overlap all take a record', () => {
    const windows = hopping({ sizeMs: 60, advanceMs: 20, graceMs: 0 });
    expect(windowStarts(windows, 100)).to.deep.equal([60, 80, 100]);
    expect(windowStarts(windows, 119)).to.deep.equal([60, 80, 100]);
    expect(windowStarts(windows, 120)).to.deep.equal([80, 100, 120]);
    expect(windowStarts(tumbling({ sizeMs: 50, graceMs: 0 }), 100)).to.deep.equal([100]);
    expect(windowStarts(windows, -1)).to.deep.equal([-60, -40, -20]);
  });

  it('that make no sense are refused', () => {
    expect(() => hopping({ sizeMs: 10, advanceMs: 20, graceMs: 0 })).to.throw('leave records out');
    expect(() => tumbling({ sizeMs: 0, graceMs: 0 })).to.throw('sizeMs');
    expect(() => session({ gapMs: 5, graceMs: -1 })).to.throw('graceMs');
  });

  it('count into rows by their start, and count what comes too late', async () => {
    const driver = driverOf((t) => {
      t.stream(facts)
        .groupByKey()
        .windowedBy(tumbling({ sizeMs: 100, graceMs: 50 }))
        .count(counts, 'seen', { action: 'SEEN' });
    });
    sendAt(driver, 10, 90, 110, 149, 20);
    await driver.run();
    sendAt(driver, 151, 30);
    await driver.run();
    expect(driver.table('counts')).to.have.deep.members([
      { id: 'a', window_start: 0, seen: 3 },
      { id: 'a', window_start: 100, seen: 3 },
    ]);
    expect(driver.lateRecords).to.equal(1);
  });

  describe('that are final', () => {
    const emitted: Windowed<number>[] = [];
    beforeEach(() => {
      emitted.length = 0;
    });
    const windowed = (windows: Parameters<typeof finals>[0]): TopologyTestDriver => finals(windows, emitted);

    it('come once, by the time of the stream', async () => {
      const driver = windowed(tumbling({ sizeMs: 100, graceMs: 20 }));
      sendAt(driver, 10, 20, 110);
      await driver.run();
      expect(emitted).to.deep.equal([]);
      sendAt(driver, 119, 30);
      await driver.run();
      driver.restart();
      sendAt(driver, 120);
      await driver.run();
      expect(emitted).to.deep.equal([{ key: 'a', startMs: 0, endMs: 100, value: 3 }]);
      sendAt(driver, 40);
      await driver.run();
      expect(driver.lateRecords).to.equal(1);
      expect(emitted).to.have.length(1);
    });

    it('come by the wall clock when the stream is quiet, and are not opened again', async () => {
      const driver = windowed(tumbling({ sizeMs: 100, graceMs: 20 }));
      sendAt(driver, 10, [20, 'b']);
      await driver.run();
      await driver.advanceWallClock(119);
      expect(emitted).to.deep.equal([]);
      await driver.advanceWallClock(1);
      expect(emitted.map(({ key, value }) => [key, value])).to.have.deep.members([
        ['a', 1],
        ['b', 1],
      ]);
      sendAt(driver, 30);
      await driver.run();
      await driver.advanceWallClock(1000);
      expect(emitted).to.have.length(2);
      expect(driver.lateRecords).to.equal(1);
    });

    it('grow and merge while records keep coming', async () => {
      const driver = windowed(session({ gapMs: 50, graceMs: 100 }));
      sendAt(driver, 100, 200, 130, 165);
      await driver.run();
      await driver.advanceWallClock(10_000);
      expect(emitted).to.deep.equal([{ key: 'a', startMs: 100, endMs: 250, value: 4 }]);
    });

    it('are kept when what follows cannot take them', async () => {
      let isBroken = true;
      const driver = driverOf((t) => {
        t.stream(facts)
          .groupByKey()
          .windowedBy(tumbling({ sizeMs: 100, graceMs: 0 }))
          .aggregate('windows', sums)
          .map((window) => {
            if (isBroken) throw new Error('not now');
            return window;
          })
          .peek((window) => emitted.push(window));
      });
      sendAt(driver, 10);
      await driver.run();
      await driver.advanceWallClock(200);
      expect(emitted).to.deep.equal([]);
      isBroken = false;
      await driver.advanceWallClock(100_000);
      expect(emitted).to.deep.equal([{ key: 'a', startMs: 0, endMs: 100, value: 1 }]);
    });
  });
});

const finals = (
  windows: ReturnType<typeof tumbling> | ReturnType<typeof session>,
  emitted: Windowed<number>[],
): TopologyTestDriver =>
  driverOf((t) => {
    t.stream(facts)
      .groupByKey()
      .windowedBy(windows)
      .aggregate('windows', { ...sums, merge: (one, other) => one + other })
      .peek((window) => emitted.push(window));
  });
