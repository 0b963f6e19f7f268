import { expect } from 'chai';
import type { Windowed } from '../../../src/streams/kstream.ts';
import type { BatchCommit } from '../../../src/streams/ports.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../src/streams/testing/memory-state-store.ts';
import type { DriverOptions, TopologyTestDriver } from '../../../src/streams/testing/topology-test-driver.ts';
import type { TopologyBuilder } from '../../../src/streams/topology.ts';
import { hopping, session, tumbling, windowStarts } from '../../../src/streams/windows.ts';
import { asRecord, driverOf, type Fact, fact, facts } from '../../support/json-stream.ts';
import { keepLines } from '../../support/logged-lines.ts';
import { recordingLog } from '../../support/silent-log.ts';

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

  it('tell which events missed them, under the time that the events themselves tell', async () => {
    const missed: BatchCommit['missed'][number][] = [];
    class WatchedStore extends MemoryStateStore {
      override commit(batch: BatchCommit) {
        missed.push(...batch.missed);
        return super.commit(batch);
      }
    }
    const driver = driverOf(
      (t) => {
        t.stream(facts, { time: ({ amount }) => amount })
          .groupByKey()
          .windowedBy(tumbling({ sizeMs: 100, graceMs: 50 }))
          .count(counts, 'seen', { action: 'SEEN' });
      },
      { store: new WatchedStore(), partitions: 1, startMs: 1000 },
    );
    const late = fact({ time: 25_000, amount: 20 });
    for (const one of [fact({ time: 25_000, amount: 500 }), late]) driver.send('facts', asRecord(one));
    await driver.run();
    expect(missed).to.deep.equal([{ topic: 'facts', partition: 0, bucketStartMs: 20_000, ids: [late.id] }]);
    expect([...driver.store.missed]).to.deep.equal([late.id]);
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
      expect(emitted).to.deep.equal([{ key: 'a', startMs: 0, endMs: 100, value: 3, isFinal: true }]);
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

    it('stay open beyond the oldest event that the relay has not sent yet, and lose none of what it sends later', async () => {
      const driver = windowed(tumbling({ sizeMs: 100, graceMs: 20 }));
      sendAt(driver, 10);
      await driver.run();
      driver.relayHolds(50);
      await driver.advanceWallClock(10_000);
      expect(emitted, 'the relay still holds an event of this window').to.deep.equal([]);
      sendAt(driver, 50, 120, 130);
      driver.relayHolds(160);
      await driver.run();
      await driver.advanceWallClock(10_000);
      expect(emitted).to.deep.equal([{ key: 'a', startMs: 0, endMs: 100, value: 2, isFinal: true }]);
      sendAt(driver, 160);
      driver.relayHolds(undefined);
      await driver.run();
      await driver.advanceWallClock(10_000);
      expect(emitted.map(({ startMs, value }) => [startMs, value])).to.deep.equal([
        [0, 2],
        [100, 3],
      ]);
      expect(driver.lateRecords).to.equal(0);
    });

    it('stay open while nobody can tell what the relay has sent', async () => {
      const { lines, log } = keepLines();
      const driver = finals(tumbling({ sizeMs: 100, graceMs: 20 }), emitted, { logger: log });
      sendAt(driver, 10);
      await driver.run();
      driver.relayIsSilent(new Error('the database is away'));
      await driver.advanceWallClock(10_000);
      await driver.advanceWallClock(10_000);
      expect(emitted).to.deep.equal([]);
      expect(lines.filter(({ msg }) => msg.includes('windows stay open'))).to.have.length(1);
      driver.relayIsSilent(undefined);
      await driver.advanceWallClock(0);
      expect(emitted).to.have.length(1);
    });

    it('grow and merge while records keep coming', async () => {
      const driver = windowed(session({ gapMs: 50, graceMs: 100 }));
      sendAt(driver, 100, 200, 130, 165);
      await driver.run();
      await driver.advanceWallClock(10_000);
      expect(emitted).to.deep.equal([{ key: 'a', startMs: 100, endMs: 250, value: 4, isFinal: true }]);
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
      expect(emitted).to.deep.equal([{ key: 'a', startMs: 0, endMs: 100, value: 1, isFinal: true }]);
    });
  });
});

const finals = (
  windows: ReturnType<typeof tumbling> | ReturnType<typeof session>,
  emitted: Windowed<number>[],
  options: Partial<DriverOptions> = {},
): TopologyTestDriver =>
  driverOf((t) => {
    t.stream(facts)
      .groupByKey()
      .windowedBy(windows)
      .aggregate('windows', { ...sums, merge: (one, other) => one + other })
      .peek((window) => emitted.push(window));
  }, options);

describe('a window whose result the database refuses', () => {
  const totals = { table: 'totals', keyColumn: 'id', columns: ['sum'] } as const satisfies CounterTable;
  const refusing = (refused: ReadonlySet<string>) =>
    new MemoryStateStore({
      check: (table, row) =>
        table === 'totals' && refused.has(String(row.id)) ? `${row.id} is not welcome` : undefined,
    });
  const summing = (options: Partial<DriverOptions>) =>
    driverOf((t) => {
      const stream = t.stream(facts);
      stream.groupByKey().count(seen, 'seen', { action: 'SEEN' });
      stream
        .groupByKey()
        .windowedBy(tumbling({ sizeMs: 100, graceMs: 0 }))
        .aggregate('windows', sums)
        .groupBy(({ key }) => key)
        .sum(totals, 'sum', ({ value }) => value, { action: 'SUMMED' });
    }, options);
  const seen = { table: 'seen', keyColumn: 'id', columns: ['seen'] } as const satisfies CounterTable;
  const sumsOf = (driver: TopologyTestDriver): Record<string, unknown> =>
    Object.fromEntries(driver.table('totals').map(({ id, sum }) => [id, sum]));

  it('is kept, the others are handed on, and no record is to blame', async () => {
    const refused = new Set(['k3', 'k7']);
    const { log, lines } = keepLines();
    const driver = summing({ store: refusing(refused), partitions: 1, logger: log });
    for (let key = 0; key < 10; key++) sendAt(driver, [key, `k${key}`]);
    for (const time of [110, 120, 130]) sendAt(driver, [time, 'later']);
    await driver.run();
    expect(driver.deadLetters).to.deep.equal([]);
    expect(Object.keys(sumsOf(driver))).to.have.members(['k0', 'k1', 'k2', 'k4', 'k5', 'k6', 'k8', 'k9']);
    expect(driver.table('seen')).to.have.length(11);
    const errors = lines.filter(({ level }) => level >= 50);
    expect(errors.map(({ err }) => err?.message)).to.have.members(['k3 is not welcome', 'k7 is not welcome']);

    refused.clear();
    await driver.advanceWallClock(100_000);
    expect(sumsOf(driver)).to.include({ k3: 1, k7: 1, later: 3 });
  });

  it('does not keep the wall clock from closing the others', async () => {
    const refused = new Set(['k1']);
    const driver = summing({ store: refusing(refused), partitions: 1 });
    for (let key = 0; key < 5; key++) sendAt(driver, [key, `k${key}`]);
    await driver.run();
    await driver.advanceWallClock(200);
    expect(Object.keys(sumsOf(driver))).to.have.members(['k0', 'k2', 'k3', 'k4']);
    refused.clear();
    await driver.advanceWallClock(100_000);
    expect(sumsOf(driver)).to.deep.include({ k1: 1 });
  });

  it('is not tried again with every record of its key', async () => {
    const refused = new Set(['k1']);
    let commits = 0;
    const store = refusing(refused);
    const commit = store.commit.bind(store);
    store.commit = (batch) => {
      commits++;
      return commit(batch);
    };
    const driver = summing({ store, partitions: 1 });
    sendAt(driver, [10, 'k1'], [110, 'k1']);
    await driver.run();
    commits = 0;
    for (let time = 120; time < 140; time++) {
      sendAt(driver, [time, 'k1']);
      await driver.run();
    }
    expect(commits).to.equal(20);
  });
});

describe('a session', () => {
  it('takes a record that comes exactly one gap later, also without grace', async () => {
    const emitted: Windowed<number>[] = [];
    const driver = finals(session({ gapMs: 50, graceMs: 0 }), emitted);
    sendAt(driver, 100, 150, 200);
    await driver.run();
    await driver.advanceWallClock(1000);
    expect(emitted).to.deep.equal([{ key: 'a', startMs: 100, endMs: 250, value: 3, isFinal: true }]);
  });

  it('is over one moment later', async () => {
    const emitted: Windowed<number>[] = [];
    const driver = finals(session({ gapMs: 50, graceMs: 0 }), emitted);
    sendAt(driver, 100, 151);
    await driver.run();
    expect(emitted).to.deep.equal([{ key: 'a', startMs: 100, endMs: 150, value: 1, isFinal: true }]);
  });
});

describe('a window that feeds another', () => {
  it('does so in time, however far the records of its batch have come', async () => {
    const run = async (together: boolean) => {
      const emitted: Windowed<number>[] = [];
      const driver = driverOf(
        (t) => {
          t.stream(facts)
            .groupByKey()
            .windowedBy(tumbling({ sizeMs: 100, graceMs: 0 }))
            .aggregate('small', sums)
            .groupByKey()
            .windowedBy(tumbling({ sizeMs: 300, graceMs: 0 }))
            .aggregate('large', { initial: 0, fold: (sum, { value }) => sum + value })
            .peek((window) => emitted.push(window));
        },
        { partitions: 1 },
      );
      for (const time of [10, 110, 220, 1000]) {
        sendAt(driver, time);
        if (!together) await driver.run();
      }
      await driver.run();
      await driver.advanceWallClock(10_000);
      await driver.advanceWallClock(10_000);
      return { late: driver.lateRecords, emitted: emitted.map(({ startMs, value }) => [startMs, value]) };
    };
    const apart = await run(false);
    expect(apart.late).to.equal(0);
    expect(await run(true)).to.deep.equal(apart);
  });
});

describe('windows of a step that is not there any more', () => {
  const tumblingAs = (name: string, emitted: Windowed<number>[]) => (t: TopologyBuilder) => {
    t.stream(facts)
      .groupByKey()
      .windowedBy(tumbling({ sizeMs: 100, graceMs: 0 }))
      .aggregate(name, sums)
      .peek((window) => emitted.push(window));
  };

  it('do not keep those of others from closing, and are told once', async () => {
    const before: Windowed<number>[] = [];
    const renamed = driverOf(tumblingAs('old-name', before), { partitions: 1 });
    // More than are closed at once.
    for (let index = 0; index < 600; index++)
      renamed.send('facts', asRecord(fact({ of: `left-behind-${index}`, time: 10 })));
    await renamed.run();

    const emitted: Windowed<number>[] = [];
    const { log, lines } = recordingLog();
    const driver = driverOf(tumblingAs('new-name', emitted), {
      partitions: 1,
      store: renamed.store,
      logger: log,
    });
    renamed.shareTopicsWith(driver);
    driver.send('facts', asRecord(fact({ of: 'a', time: 20 })));
    await driver.run();
    for (let look = 0; look < 3; look++) await driver.advanceWallClock(10_000);
    expect(emitted.map(({ key }) => key)).to.deep.equal(['a']);
    const told = lines.filter(({ state }) => state === 'old-name');
    expect(told).to.have.length(1);
  });
});
