import { expect } from 'chai';
import type { Windowed } from '../../../src/streams/kstream.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../src/streams/testing/memory-state-store.ts';
import type { DriverOptions } from '../../../src/streams/testing/topology-test-driver.ts';
import type { Reading } from '../../../src/streams/turn.ts';
import { tumbling } from '../../../src/streams/windows.ts';
import { asRecord, driverOf, fact, facts } from '../../support/json-stream.ts';

const others = { topic: 'others' } as typeof facts;
const counts = { table: 'counts', keyColumn: 'id', columns: ['seen'] } as const satisfies CounterTable;
const windows = tumbling({ sizeMs: 100, graceMs: 0 });

/** Windows over two topics, whose results are counted. */
const merged = (options: Partial<DriverOptions> = {}) => {
  const emitted: Windowed<number>[] = [];
  const driver = driverOf((t) => {
    t.stream(facts)
      .merge(t.stream(others))
      .groupByKey()
      .windowedBy(windows)
      .aggregate('windows', { initial: 0, fold: (sum) => sum + 1 })
      .peek((window) => emitted.push(window))
      .groupBy(({ key }) => key)
      .sum(counts, 'seen', ({ value }) => value, { action: 'SEEN' });
  }, options);
  return { driver, emitted };
};

describe('a task: the partitions of one number', () => {
  it('has one time: a window of merged topics that one of them has closed is not opened by another', async () => {
    const { driver, emitted } = merged();
    driver.send('facts', asRecord(fact({ time: 10 })));
    await driver.run();
    driver.send('facts', asRecord(fact({ time: 120 })));
    await driver.run();
    driver.send('others', asRecord(fact({ time: 50 })));
    await driver.run();
    await driver.advanceWallClock(10_000);
    expect(emitted.map(({ startMs, value }) => [startMs, value])).to.deep.equal([
      [0, 1],
      [100, 1],
    ]);
    expect(driver.lateRecords).to.equal(1);
  });

  it('keeps its time over a restart', async () => {
    const { driver, emitted } = merged();
    driver.send('facts', asRecord(fact({ time: 120 })));
    await driver.run();
    driver.restart();
    driver.send('others', asRecord(fact({ time: 50 })));
    await driver.run();
    await driver.advanceWallClock(10_000);
    expect(emitted.map(({ startMs }) => startMs)).to.deep.equal([100]);
    expect(driver.lateRecords).to.equal(1);
  });

  it('closes a window by what any of its topics brings, whichever of them opened it', async () => {
    const { driver, emitted } = merged();
    driver.send('others', asRecord(fact({ time: 10 })));
    await driver.run();
    driver.send('facts', asRecord(fact({ time: 110 })));
    await driver.run();
    expect(emitted.map(({ startMs }) => startMs)).to.deep.equal([0]);
  });

  it('takes what its topics bring together in the order of their times', async () => {
    for (let seed = 1; seed < 500; seed++) {
      const { driver } = merged({ seed, partitions: 1 });
      for (const time of [10, 150, 290]) driver.send('facts', asRecord(fact({ time })));
      for (const time of [20, 140, 280]) driver.send('others', asRecord(fact({ time })));
      const together = await driver.reader.computeNext();
      if (together?.inputs.length !== 2 || together.inputs.some(({ records }) => records.length < 3))
        continue;
      await driver.reader.settle(together);
      expect(driver.lateRecords).to.equal(0);
      return;
    }
    throw new Error('No seed brings both topics together');
  });

  it('lets one of two processes close a window by the wall clock', async () => {
    const { driver } = merged();
    driver.send('facts', asRecord(fact({ time: 10 })));
    await driver.run();
    const [one, other] = [driver.newReader(), driver.newReader()];
    await one.assign();
    await other.assign();
    driver.passTime(5000);
    const rounds = [await one.computeTick(), await other.computeTick()];
    for (const [index, reader] of [one, other].entries()) {
      const round = rounds[index];
      if (!round) throw new Error('There was nothing to close');
      await reader.settle(round);
    }
    expect(driver.table('counts')).to.deep.equal([{ id: 'a', seen: 1 }]);
  });

  it('is not taken from a process by itself, however many of its batches are on their way', async () => {
    for (let seed = 1; seed <= 50; seed++) {
      let fences = 0;
      const { driver } = merged({ seed, observer: { fenced: () => fences++ } });
      for (let index = 0; index < 60; index++) {
        driver.send(
          index % 2 === 0 ? 'facts' : 'others',
          asRecord(fact({ of: `k${index % 5}`, time: index })),
        );
      }
      await driver.run();
      expect(fences, `seed ${seed}`).to.equal(0);
    }
  });

  it('whose states several topics share has one writer from the first record on', async () => {
    const store = new MemoryStateStore();
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .merge(t.stream(others))
          .groupByKey()
          .aggregate('sums', { initial: 0, fold: (sum, { amount }) => sum + amount });
      },
      { store, partitions: 1, seed: 3 },
    );
    const [one, other] = [driver.newReader(), driver.newReader()];
    await one.assign();
    await other.assign();
    driver.send('facts', asRecord(fact({ amount: 1 })));
    const first = await untilSome(() => one.computeNext());
    driver.send('others', asRecord(fact({ amount: 10 })));
    // The zombie has read the other topic only: nothing that it has read was read by anybody else.
    const second = await untilSome(() => other.computeNext(['others']));
    await one.settle(first);
    await other.settle(second);
    await one.runAll();
    await other.runAll();
    expect([...store.statesOf('sums')]).to.deep.equal([['a', 11]]);
  });

  it('is not quiet while something of it was read and not looked at: the wall clock closes nothing before that', async () => {
    const { driver, emitted } = merged({ partitions: 2 });
    driver.sendTo({ topic: 'facts', partition: 0 }, asRecord(fact({ time: 10 })));
    driver.sendTo({ topic: 'facts', partition: 1 }, asRecord(fact({ of: 'b', time: 20 })));
    await driver.run();
    driver.passTime(5000);
    driver.sendTo({ topic: 'facts', partition: 0 }, asRecord(fact({ time: 30 })));
    driver.sendTo({ topic: 'others', partition: 1 }, asRecord(fact({ of: 'b', time: 40 })));
    const { reader } = driver;
    const first = await untilRead(() => reader.read(['others']));
    const second = await untilRead(() => reader.read(['facts']));
    for (const reading of [first, second]) {
      for (const round of await reader.turn(reading)) await reader.settle(round);
    }
    await driver.advanceWallClock(1000);
    expect(driver.lateRecords).to.equal(0);
    expect(emitted.map(({ key, value }) => [key, value])).to.have.deep.members([
      ['a', 2],
      ['b', 2],
    ]);
  });

  it('that is quiet closes its windows by the wall clock while another is busy', async () => {
    const { driver, emitted } = merged({ partitions: 2 });
    driver.sendTo({ topic: 'facts', partition: 0 }, asRecord(fact({ of: 'quiet', time: 10 })));
    await driver.run();
    for (let second = 0; second < 5; second++) {
      for (let index = 0; index < 200; index++) {
        driver.sendTo({ topic: 'facts', partition: 1 }, asRecord(fact({ of: 'busy', time: 20 })));
      }
      driver.passTime(1000);
      await driver.reader.step();
    }
    expect(driver.reader.isDone).to.equal(false);
    expect(emitted.map(({ key }) => key)).to.deep.equal(['quiet']);
  });
});

const untilRead = async (read: () => Promise<Reading>): Promise<Reading> => {
  for (;;) {
    const reading = await read();
    if (reading.batches.length > 0) return reading;
  }
};

const untilSome = async <T>(compute: () => Promise<T | undefined>): Promise<T> => {
  for (;;) {
    const computed = await compute();
    if (computed) return computed;
  }
};
