import { expect } from 'chai';
import fc from 'fast-check';
import { describeTopology } from '../../../src/streams/describe.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../src/streams/testing/memory-state-store.ts';
import type { DriverOptions, TopologyTestDriver } from '../../../src/streams/testing/topology-test-driver.ts';
import { tumbling } from '../../../src/streams/windows.ts';
import { asRecord, driverOf, type Fact, fact, facts, specTopology } from '../../support/json-stream.ts';

const build = (options: Partial<DriverOptions> = {}, atMostEveryMs = 100): TopologyTestDriver =>
  driverOf(
    (t) => {
      t.stream(facts)
        .suppress('latest', { atMostEveryMs })
        .to({ name: 'results' }, (value) => value);
    },
    { partitions: 1, ...options },
  );

const send = (
  driver: TopologyTestDriver,
  ...records: readonly (readonly [number, number] | readonly [number, number, string])[]
): readonly Fact[] =>
  records.map(([time, amount, of = 'a']) => {
    const value = fact({ time, amount, of });
    driver.send('facts', asRecord(value));
    return value;
  });

const told = (driver: TopologyTestDriver, key = 'a'): readonly number[] =>
  driver.output.filter((event) => event.key === key).map(({ value }) => (value as Fact).amount);

describe('suppress', () => {
  it('lets the first record of a key through, and then the latest one at most so often', async () => {
    const driver = build();
    send(driver, [1000, 1], [1010, 2], [1020, 3], [1030, 4, 'b']);
    await driver.run();
    expect([told(driver), told(driver, 'b')]).to.deep.equal([[1], [4]]);
    send(driver, [1099, 5, 'b']);
    await driver.run();
    expect(told(driver)).to.deep.equal([1]);
    send(driver, [1100, 6, 'b']);
    await driver.run();
    expect(told(driver)).to.deep.equal([1, 3]);
    send(driver, [1150, 7], [1400, 8]);
    await driver.run();
    expect(told(driver), 'what waited until 1200 comes before what passes at 1400').to.deep.equal([
      1, 3, 7, 8,
    ]);
  });

  it('brings the last one by the wall clock, also after a restart, and not beyond what the relay still holds', async () => {
    const driver = build();
    send(driver, [1000, 1], [1010, 2]);
    await driver.run();
    driver.restart();
    driver.relayHolds(1099);
    await driver.advanceWallClock(10_000);
    expect(told(driver)).to.deep.equal([1]);
    driver.relayHolds(undefined);
    await driver.advanceWallClock(0);
    expect(told(driver)).to.deep.equal([1, 2]);
  });

  it('remembers nothing of a key once its pause is over', async () => {
    const driver = build();
    send(driver, [1000, 1], [1010, 2]);
    await driver.run();
    expect(driver.store.statesOf('latest').size).to.equal(1);
    for (let look = 0; look < 2; look++) await driver.advanceWallClock(10_000);
    expect(driver.store.statesOf('latest').size).to.equal(0);
    expect(told(driver)).to.deep.equal([1, 2]);
  });

  it('leaves records their ids and times, and what comes again is not told again', async () => {
    const driver = build();
    const [first] = send(driver, [1000, 1]);
    await driver.run();
    driver.redeliver();
    await driver.run();
    await driver.advanceWallClock(10_000);
    expect(driver.output.map(({ causationId, timeMs }) => [causationId, timeMs])).to.deep.equal([
      [first?.id, 1000],
    ]);
  });

  it('does not take the time of a record that nobody believes for that of the stream', async () => {
    const driver = driverOf(
      (t) => {
        const stream = t.stream(facts);
        stream.suppress('latest', { atMostEveryMs: 100 }).to({ name: 'results' }, (value) => value);
        stream
          .groupByKey()
          .windowedBy(tumbling({ sizeMs: 100, graceMs: 0 }))
          .aggregate('windows', { initial: 0, fold: (sum, { amount }) => sum + amount })
          .to({ name: 'windows' }, ({ value }) => ({ amount: value }));
      },
      { partitions: 1 },
    );
    send(driver, [9_000_000, 1]);
    await driver.run();
    send(driver, [1000, 2]);
    await driver.run();
    send(driver, [1010, 3]);
    await driver.run();
    for (let look = 0; look < 2; look++) await driver.advanceWallClock(10_000);
    expect(told(driver)).to.have.members([1, 2, 3, 5]);
    expect([driver.store.earlyRecords, driver.lateRecords]).to.deep.equal([1, 0]);
  });

  it('tells the latest row of a table, and that it is gone', async () => {
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .map((row) => (row.amount === 0 ? null : row.amount))
          .toTable('rows')
          .suppress('latest', { atMostEveryMs: 100 })
          .to({ name: 'results' }, (row) => ({ row }));
      },
      { partitions: 1 },
    );
    send(driver, [1000, 1], [1010, 2], [1020, 0]);
    await driver.run();
    await driver.advanceWallClock(10_000);
    expect(driver.output.map(({ value }) => value)).to.deep.equal([{ row: 1 }, { row: null }]);
  });

  it('is described, and refused where it makes no sense', () => {
    const built = specTopology((t) => {
      t.stream(facts).suppress('latest', { atMostEveryMs: 5000 });
    });
    expect(describeTopology(built)).to.contain('latest of each key (latest), at most every 5 s');
    expect(() => build({}, 0)).to.throw('atMostEveryMs');
  });

  it('keeps a record that cannot be handed on, or a later one of its key, and blames none', async () => {
    const totals = { table: 'totals', keyColumn: 'id', columns: ['sum'] } as const satisfies CounterTable;
    let isRefusing = true;
    const store = new MemoryStateStore({
      check: (table, { id }) =>
        table === 'totals' && id === 'bad' && isRefusing ? 'not welcome' : undefined,
    });
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .suppress('latest', { atMostEveryMs: 100 })
          .groupByKey()
          .sum(totals, 'sum', ({ amount }) => amount, { action: 'SUMMED' });
      },
      { partitions: 1, store },
    );
    send(driver, [1000, 1, 'bad'], [1001, 2, 'good'], [1002, 4, 'bad']);
    await driver.run();
    send(driver, [1500, 8, 'bad']);
    await driver.run();
    expect(driver.table('totals')).to.deep.equal([{ id: 'good', sum: 2 }]);
    isRefusing = false;
    driver.restart();
    await driver.advanceWallClock(100_000);
    expect(driver.table('totals')).to.deep.include({ id: 'bad', sum: 8 });
    expect(driver.deadLetters).to.deep.equal([]);
  });

  it('lets the same records through in the same order, however they are batched, and the last one always', async () => {
    const record = fc.record({
      stepMs: fc.integer({ min: -30, max: 60 }),
      of: fc.constantFrom('a', 'b'),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(record, { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 1000 }),
        async (given, seed) => {
          let time = 1000;
          const sent = given.map(({ stepMs, of }, amount) => {
            time += stepMs;
            return fact({ time, of, amount });
          });
          const run = async (isTogether: boolean) => {
            const driver = build({ seed });
            for (const value of sent) {
              driver.send('facts', asRecord(value));
              if (!isTogether) await driver.run();
            }
            await driver.run();
            await driver.advanceWallClock(1_000_000);
            return ['a', 'b'].map((key) => told(driver, key));
          };
          const apart = await run(false);
          expect(await run(true)).to.deep.equal(apart);
          expect(apart.map((own) => own.at(-1))).to.deep.equal(
            ['a', 'b'].map((key) => sent.findLast(({ of }) => of === key)?.amount),
          );
        },
      ),
      { numRuns: 200 },
    );
  });
});
