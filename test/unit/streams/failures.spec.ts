import { expect } from 'chai';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../src/streams/testing/memory-state-store.ts';
import type { TopologyTestDriver } from '../../../src/streams/testing/topology-test-driver.ts';
import { asRecord, driverOf, fact, facts } from '../../support/json-stream.ts';

const counts = { table: 'counts', keyColumn: 'id', columns: ['seen'] } as const satisfies CounterTable;
const onFailure = (afterRetries: 'skip-record' | 'park-key', retries = 0) => ({
  built: { onFailure: { retries, backoffMs: 1, afterRetries } },
});

/** Fails on amounts below zero for as long as `broken` says so. */
const counting = (afterRetries: 'skip-record' | 'park-key', broken: { is: boolean }): TopologyTestDriver =>
  driverOf((t) => {
    t.stream(facts)
      .map((value) => {
        if (broken.is && value.amount < 0) throw new Error(`${value.amount} is no amount`);
        return value;
      })
      .groupByKey()
      .sum(counts, 'seen', ({ amount }) => Math.abs(amount), { action: 'SEEN' });
  }, onFailure(afterRetries));

const seenBy = (driver: TopologyTestDriver): Record<string, unknown> =>
  Object.fromEntries(driver.table('counts').map(({ id, seen }) => [id, seen]));

describe('a record that fails', () => {
  it('goes to the dead letters alone, with its cause', async () => {
    const driver = counting('skip-record', { is: true });
    for (const amount of [1, 2, -3, 4]) driver.send('facts', asRecord(fact({ amount })));
    await driver.run();
    expect(seenBy(driver)).to.deep.equal({ a: 7 });
    expect(
      driver.deadLetters.map(({ kind, error, record }) => [kind, error.message, record.offset]),
    ).to.deep.equal([['failed', '-3 is no amount', 2]]);
  });

  it('is tried again before that', async () => {
    let tries = 0;
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .map((value) => {
            // The first pass over a batch is not a try of its own.
            if (value.of === 'flaky' && ++tries < 4) throw new Error('not yet');
            return value;
          })
          .groupByKey()
          .count(counts, 'seen', { action: 'SEEN' });
      },
      onFailure('skip-record', 3),
    );
    driver.send('facts', asRecord(fact({ of: 'flaky' })));
    await driver.run();
    expect(seenBy(driver)).to.deep.equal({ flaky: 1 });
    expect(driver.deadLetters).to.deep.equal([]);
  });

  const failing = (options: { readonly retries: number; readonly backoffMs: number }) => {
    const broken = { is: true };
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .map((value) => {
            if (broken.is && value.kind === 'bad') throw new Error('bad');
            return value;
          })
          .groupByKey()
          .count(counts, 'seen', { action: 'SEEN' });
      },
      { built: { onFailure: { ...options, afterRetries: 'skip-record' } }, partitions: 1 },
    );
    return { driver, broken };
  };
  const waited = ({ pauses }: TopologyTestDriver): number => pauses.reduce((sum, timeMs) => sum + timeMs, 0);

  it('is tried again together with all others of its batch', async () => {
    const { driver } = failing({ retries: 3, backoffMs: 100 });
    for (let index = 0; index < 10; index++) driver.send('facts', asRecord(fact({ kind: 'bad' })));
    driver.send('facts', asRecord(fact()));
    let round = await driver.reader.computeNext();
    while (!round) round = await driver.reader.computeNext();
    expect(round.inputs[0]?.records.length).to.be.greaterThan(1);
    expect(driver.pauses).to.deep.equal([100, 200, 400]);
  });

  it('is not tried again once that has been in vain for several batches, and is when all was well for a while', async () => {
    const { driver } = failing({ retries: 3, backoffMs: 100 });
    for (let index = 0; index < 2000; index++) driver.send('facts', asRecord(fact({ kind: 'bad' })));
    await driver.run();
    expect(driver.deadLetters).to.have.length(2000);
    expect(waited(driver)).to.equal(5 * 700);
    for (let index = 0; index < 50; index++) {
      driver.send('facts', asRecord(fact()));
      await driver.run();
    }
    driver.pauses.length = 0;
    driver.send('facts', asRecord(fact({ kind: 'bad' })));
    await driver.run();
    expect(waited(driver)).to.equal(700);
    expect(seenBy(driver)).to.deep.equal({ a: 50 });
  });

  it('leaves nothing behind of what it did before it failed', async () => {
    const driver = driverOf((t) => {
      t.stream(facts)
        .flatMap((value) => [1, 2, 3].map((part) => ({ ...value, part })))
        .map((value) => {
          if (value.kind === 'bad' && value.part === 3) throw new Error('bad');
          return value;
        })
        .groupByKey()
        .count(counts, 'seen', { action: 'SEEN' });
    });
    for (const kind of ['good', 'bad', 'good']) driver.send('facts', asRecord(fact({ kind })));
    await driver.run();
    expect(seenBy(driver)).to.deep.equal({ a: 6 });
  });

  it('that cannot be decoded goes there too', async () => {
    const driver = counting('skip-record', { is: true });
    driver.send('facts', { key: 'a', value: Buffer.from('no json') });
    driver.send('facts', { key: 'a', value: null });
    driver.send('facts', asRecord(fact()));
    await driver.run();
    expect(driver.deadLetters.map(({ kind }) => kind)).to.deep.equal(['undecodable', 'undecodable']);
    expect(seenBy(driver)).to.deep.equal({ a: 1 });
  });

  it('that the store refuses is found among thousands', async () => {
    const store = new MemoryStateStore({
      check: (_, row) => (Number(row.seen) < 0 ? 'the count would be negative' : undefined),
    });
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .groupByKey()
          .sum(counts, 'seen', ({ amount }) => amount, { action: 'SEEN' });
      },
      { store },
    );
    for (let index = 0; index < 500; index++) driver.send('facts', asRecord(fact({ of: `k${index % 7}` })));
    driver.send('facts', asRecord(fact({ of: 'never-liked', amount: -1 })));
    for (let index = 0; index < 500; index++) driver.send('facts', asRecord(fact({ of: `k${index % 7}` })));
    await driver.run();
    expect(driver.deadLetters.map(({ kind, error }) => [kind, error.message])).to.deep.equal([
      ['refused', 'the count would be negative'],
    ]);
    const all = Object.values(seenBy(driver)).reduce<number>((sum, seen) => sum + Number(seen), 0);
    expect(all).to.equal(1000);
  });
});

describe('a key whose order matters', () => {
  it('is parked behind the record that failed, and the others go on', async () => {
    const broken = { is: true };
    const driver = counting('park-key', broken);
    for (const amount of [1, -2, 3, 4]) driver.send('facts', asRecord(fact({ amount })));
    driver.send('facts', asRecord(fact({ of: 'b', amount: 9 })));
    await driver.run();
    driver.restart();
    driver.send('facts', asRecord(fact({ amount: 5 })));
    await driver.run();
    expect(seenBy(driver)).to.deep.equal({ a: 1, b: 9 });
    expect(driver.deadLetters.map(({ kind }) => kind)).to.deep.equal([
      'failed',
      'parked',
      'parked',
      'parked',
    ]);
    expect(
      driver.store.parked.map(({ key, records, sinceOffset }) => [key, records, sinceOffset]),
    ).to.deep.equal([['a', 4, 1]]);
  });

  const replay = (driver: TopologyTestDriver, id: string): void => {
    for (const { place, record } of driver.deadLetters.splice(0)) {
      driver.sendTo(place, {
        key: record.key?.toString() ?? null,
        value: record.value,
        replay: { id, projection: 'spec', attempt: 1 },
      });
    }
  };

  it('is released when its records were replayed in order', async () => {
    const broken = { is: true };
    const driver = counting('park-key', broken);
    for (const amount of [1, -2, 3]) driver.send('facts', asRecord(fact({ amount })));
    await driver.run();
    replay(driver, 'first');
    driver.send('facts', asRecord(fact({ amount: 10 })));
    await driver.run();
    expect(seenBy(driver)).to.deep.equal({ a: 1 });
    expect(driver.deadLetters.map(({ kind }) => kind)).to.deep.equal(['failed', 'parked', 'parked']);
    expect(driver.store.parked.map(({ records }) => records)).to.deep.equal([3]);
    broken.is = false;
    driver.restart();
    replay(driver, 'second');
    driver.send('facts', asRecord(fact({ amount: 100 })));
    await driver.run();
    expect(driver.store.parked).to.deep.equal([]);
    expect(seenBy(driver)).to.deep.equal({ a: 116 });
  });

  for (const [what, of] of [
    ['has a zero byte', 'or\0der'],
    ['is too long for an index', 'x'.repeat(5000)],
  ] as const) {
    it(`is parked and released when it ${what}, and is told apart from others`, async () => {
      const broken = { is: true };
      const driver = counting('park-key', broken);
      for (const amount of [1, -2, 3]) driver.send('facts', asRecord(fact({ of, amount })));
      driver.send('facts', asRecord(fact({ of: `${of}, another`, amount: 7 })));
      await driver.run();
      expect(driver.deadLetters.map(({ kind, record }) => [kind, record.offset])).to.deep.equal([
        ['failed', 1],
        ['parked', 2],
      ]);
      expect(driver.store.parked.map(({ records }) => records)).to.deep.equal([2]);
      broken.is = false;
      driver.restart();
      replay(driver, 'mended');
      await driver.run();
      expect(driver.store.parked).to.deep.equal([]);
      expect(seenBy(driver)).to.deep.equal({ [of]: 6, [`${of}, another`]: 7 });
    });
  }

  it('is parked whatever the reason says', async () => {
    const driver = driverOf((t) => {
      t.stream(facts).map(({ of }) => {
        throw new Error(`What is \0 in ${of}?`);
      });
    }, onFailure('park-key'));
    driver.send('facts', asRecord(fact()));
    await driver.run();
    expect(driver.store.parked.map(({ reason }) => reason)).to.deep.equal(['What is \uFFFD in a?']);
    expect(driver.deadLetters).to.have.length(1);
  });

  it('leaves replays for other projections alone', async () => {
    const driver = counting('skip-record', { is: false });
    driver.sendTo(
      { topic: 'facts', partition: 0 },
      { ...asRecord(fact()), replay: { id: 'r', projection: 'another', attempt: 1 } },
    );
    await driver.run();
    expect(driver.table('counts')).to.deep.equal([]);
    expect(driver.deadLetters).to.deep.equal([]);
  });
});
