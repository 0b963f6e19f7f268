import { expect } from 'chai';
import { describeTopology } from '../../../../src/streams/describe.ts';
import type { RowTable } from '../../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../../src/streams/testing/memory-state-store.ts';
import { asRecord, driverOf, type Fact, fact, facts, specTopology } from '../../../support/json-stream.ts';
import { keepLines } from '../../../support/logged-lines.ts';
import { sendAt } from '../../../support/processing.ts';

const sums = { initial: 0, fold: (sum: number, { amount }: Fact) => sum + amount };
const others = { topic: 'others' } as typeof facts;
const rowTable = { table: 'rows', keyColumn: 'id', columns: ['sum'] } as const satisfies RowTable;

describe('a state that expires', () => {
  const aggregated = (table?: RowTable) => {
    const seen: unknown[] = [];
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .groupByKey()
          .aggregate('sums', {
            initial: { sum: 0 },
            fold: ({ sum }, { amount }) => ({ sum: sum + amount }),
            expireAfterMs: 100,
            ...(table && { table }),
          })
          .toStream()
          .peek((state) => seen.push(state?.sum ?? null));
      },
      { partitions: 1 },
    );
    return { driver, seen };
  };

  for (const table of [undefined, rowTable]) {
    const where = table ? 'in a table of its own' : 'among the others';
    it(`goes away when it has not changed for a while by the time of the stream, and begins anew (${where})`, async () => {
      const { driver, seen } = aggregated(table);
      sendAt(driver, 10, 60);
      await driver.run();
      driver.restart();
      sendAt(driver, { time: 159, of: 'b' });
      await driver.run();
      expect(seen).to.deep.equal([1, 2, 1]);
      sendAt(driver, { time: 160, of: 'b' });
      await driver.run();
      expect(seen.slice(3)).to.deep.equal([2, null]);
      expect([...driver.store.statesOf('sums').keys()]).to.deep.equal(['b']);
      driver.redeliver();
      sendAt(driver, 161);
      await driver.run();
      expect(seen.slice(5)).to.deep.equal([1]);
    });

    it(`is told to be gone before the record that begins anew, where one batch brings both (${where})`, async () => {
      const { driver, seen } = aggregated(table);
      sendAt(driver, 10, 110);
      await driver.run();
      expect(seen).to.deep.equal([1, null, 1]);
    });

    it(`goes away by the wall clock when the stream is quiet, once (${where})`, async () => {
      const { driver, seen } = aggregated(table);
      driver.passTime(10);
      sendAt(driver, 10);
      await driver.run();
      await driver.advanceWallClock(99);
      driver.relayHolds(50);
      await driver.advanceWallClock(1);
      expect(seen).to.deep.equal([1]);
      driver.relayHolds(undefined);
      driver.restart();
      await driver.advanceWallClock(0);
      await driver.advanceWallClock(1000);
      expect(seen).to.deep.equal([1, null]);
      for (const state of ['sums', 'sums expiry']) expect(driver.store.statesOf(state).size).to.equal(0);
      sendAt(driver, 20, 119);
      await driver.run();
      expect(seen.slice(2)).to.deep.equal([1, 2]);
    });
  }

  it('does not bring the time of the stream forward when it goes by the wall clock', async () => {
    const seen: unknown[] = [];
    const driver = driverOf(
      (t) => {
        const stream = t.stream(facts);
        stream
          .groupByKey()
          .aggregate('sums', { ...sums, expireAfterMs: 100 })
          .toStream()
          .peek((sum) => seen.push(sum));
        stream
          .process<never, string>('step', {
            onRecord: (_, { schedule }) => schedule({ name: 'x', atMs: 105, by: 'stream-time' }),
            onTimer: ({ name }, { forward }) => forward(name),
          })
          .peek((name) => seen.push(name));
      },
      { partitions: 1 },
    );
    sendAt(driver, 10);
    await driver.run();
    await driver.advanceWallClock(1000);
    sendAt(driver, { time: 104, of: 'b' });
    await driver.run();
    expect(seen).to.deep.equal([1, null, 1]);
  });

  it('stays while it changes, also by late records, and has no time before there is one', async () => {
    const { driver, seen } = aggregated();
    sendAt(driver, 100_000_000);
    await driver.run();
    await driver.advanceWallClock(1_000_000);
    expect(seen).to.deep.equal([1]);
    sendAt(driver, 10, { time: 100, of: 'b' }, 5, { time: 199, of: 'b' }, 6, { time: 298, of: 'b' });
    await driver.run();
    expect(seen.slice(1)).to.deep.equal([2, 1, 3, 2, 4, 3]);
  });

  it('is gone for who joins it in the same batch', async () => {
    const pairs: unknown[] = [];
    const driver = driverOf(
      (t) => {
        const rows = t.stream(others).toTable('latest', { expireAfterMs: 100 });
        t.stream(facts)
          .leftJoin(rows, (one, row) => [one.time, row?.time ?? null])
          .peek((pair) => pairs.push(pair));
        const counts = t.stream(facts).groupByKey().aggregate('counts', sums);
        rows
          .leftJoin(counts, ({ time }, count) => [time, count ?? 0], { name: 'both' })
          .toStream()
          .peek((row) => pairs.push(row && ['joined', ...row]));
      },
      { partitions: 1 },
    );
    driver.send('others', asRecord(fact({ time: 10 })));
    await driver.run();
    sendAt(driver, 109, 110);
    await driver.run();
    await driver.advanceWallClock(1000);
    expect(pairs.filter((pair) => Array.isArray(pair) && pair[0] !== 'joined')).to.deep.equal([
      [109, 10],
      [110, null],
    ]);
    expect(pairs.at(-1)).to.equal(null);
    expect(driver.store.statesOf('both').size).to.equal(0);
  });

  it('works for reduce and for tables, whose rows may lie in a read model', async () => {
    const seen: unknown[] = [];
    const driver = driverOf(
      (t) => {
        const stream = t.stream(facts);
        stream
          .groupByKey()
          .reduce('largest', (one, other) => (one.amount > other.amount ? one : other), {
            expireAfterMs: 100,
          })
          .toStream()
          .peek((largest) => seen.push(['reduced', largest?.amount ?? null]));
        stream
          .map(({ amount }) => (amount < 0 ? null : { sum: amount }))
          .toTable('kept', { table: rowTable, expireAfterMs: 100 })
          .toStream()
          .peek((row) => seen.push(['row', row?.sum ?? null]));
      },
      { partitions: 1 },
    );
    sendAt(driver, { time: 10, amount: 5 }, { time: 20, amount: 3 }, { time: 120, amount: 1 });
    await driver.run();
    expect(seen).to.have.deep.members([
      ['reduced', 5],
      ['reduced', 5],
      ['reduced', null],
      ['reduced', 1],
      ['row', 5],
      ['row', 3],
      ['row', null],
      ['row', 1],
    ]);
    expect(driver.table('kept')).to.deep.equal([{ key: 'a', sum: 1 }]);
    sendAt(driver, { time: 121, amount: -1 });
    await driver.run();
    expect([driver.table('kept'), driver.store.statesOf('kept expiry').size]).to.deep.equal([[], 0]);
  });

  it('leaves the timers of a process step, and what they see depends on their time alone', async () => {
    const seen: unknown[] = [];
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .process<number, unknown>('step', {
            expireAfterMs: 100,
            onRecord: ({ value: { time } }, { store, schedule }) => {
              store.put(time);
              schedule({ name: 'before', atMs: time + 99, by: 'stream-time' });
              schedule({ name: 'after', atMs: time + 100, by: 'stream-time' });
            },
            onTimer: ({ name }, { store, forward }) => forward([name, store.get() ?? null]),
          })
          .peek((one) => seen.push(one));
      },
      { partitions: 1 },
    );
    sendAt(driver, 10, { time: 1000, of: 'b' });
    await driver.run();
    expect(seen).to.deep.equal([
      ['before', 10],
      ['after', null],
    ]);
    await driver.advanceWallClock(2000);
    expect(
      [...driver.store.statesOf('step').values()].map((state) => (state as { kept?: unknown }).kept),
    ).to.deep.equal([undefined]);
  });

  it('is kept where what follows cannot take the news, and tried again', async () => {
    const { log, lines } = keepLines();
    const refusing = { is: true };
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .groupByKey()
          .aggregate('sums', { ...sums, expireAfterMs: 100 })
          .toStream()
          .map((sum) => {
            if (sum === null && refusing.is) throw new Error('No null here');
            return sum;
          });
      },
      { partitions: 1, logger: log, store: new MemoryStateStore() },
    );
    sendAt(driver, 10, { time: 110, of: 'b' });
    await driver.run();
    expect(lines.find(({ err }) => err)?.err?.message).to.equal('No null here');
    expect(driver.store.statesOf('sums').size).to.equal(2);
    expect(driver.deadLetters).to.deep.equal([]);
    refusing.is = false;
    await driver.advanceWallClock(61_000);
    expect(driver.store.statesOf('sums').size).to.equal(0);
  });

  it('says so in the description, and a time that makes no sense is refused', () => {
    const text = describeTopology(
      specTopology((t) => {
        const stream = t.stream(facts);
        stream.groupByKey().aggregate('sums', { ...sums, expireAfterMs: 3_600_000 });
        stream.toTable('latest', { expireAfterMs: 60_000 });
        stream.process('step', { onRecord: () => {}, onTimer: () => {}, expireAfterMs: 1000 });
      }),
    );
    expect(text).to.contain('aggregate sums, gone 1 h after its last change');
    expect(text).to.contain('table latest, gone 1 min after its last change');
    expect(text).to.contain('process step, with timers, gone 1 s after its last change');
    expect(() => specTopology((t) => t.stream(facts).toTable('t', { expireAfterMs: 0 }))).to.throw(
      'expireAfterMs',
    );
  });
});
