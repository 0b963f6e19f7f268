import { expect } from 'chai';
import { createRandom } from '../../../../src/streams/testing/topology-test-driver.ts';
import type { Processor, TimerClock } from '../../../../src/streams/timers/processor.ts';
import { asRecord, driverOf, type Fact, fact, facts } from '../../../support/json-stream.ts';

describe('batches of records and timers', function () {
  // A second or two of CPU: the deadline is for machines that have other things to do.
  this.timeout(300_000);

  const clocks: readonly TimerClock[] = ['stream-time', 'wall-clock'];

  /** Everything that depends on the order of records and timers: a store that folds, timers that set timers, expiry. */
  const sensitive: Processor<Fact, readonly string[], string> = {
    expireAfterMs: 120,
    onRecord: ({ value: { kind, amount, time } }, { store, schedule, cancel, forward, streamTimeMs }) => {
      const before = store.get() ?? [];
      forward(`${before.join('+')} record ${amount} at ${streamTimeMs}`);
      store.put([...before, `r${amount}`].slice(-4));
      const by = clocks[amount % 2] ?? 'stream-time';
      if (kind === 'set') schedule({ name: `t${amount % 3}`, atMs: time + (amount % 70), by });
      if (kind === 'cancel') cancel(`t${amount % 3}`);
      if (kind === 'clear') store.delete();
    },
    onTimer: ({ name, atMs, by }, { store, schedule, forward }) => {
      const before = store.get() ?? [];
      forward(`${before.join('+')} ${name} ${atMs} ${by}`);
      if (atMs % 2 === 0) store.put([...before, `${name}@${atMs}`].slice(-4));
      if (atMs % 5 === 0) schedule({ name: 't1', atMs: atMs + 13, by });
    },
  };

  it('make no difference to what each key sees and hands on (200 streams, each in 4 ways)', async () => {
    for (let stream = 1; stream <= 200; stream++) {
      const random = createRandom(stream);
      const upTo = (limit: number): number => Math.floor(random() * limit);
      let now = 1000;
      const sent = Array.from({ length: 40 }, (_, index) => {
        now += upTo(25);
        const kind = ['set', 'set', 'cancel', 'clear', 'none'][upTo(5)] ?? 'none';
        const id = `00000000-0000-7000-8000-${String(index).padStart(12, '0')}`;
        return fact({ id, of: `k${upTo(3)}`, kind, amount: upTo(1000), time: now - upTo(30) });
      });
      const outcomes = [];
      for (let way = 0; way < 4; way++) {
        const log: [string, string][] = [];
        const driver = driverOf(
          (t) => {
            const processed = t.stream(facts).process('step', sensitive);
            processed.to({ name: 'out' }, (value) => value);
            const table = processed
              .groupByKey()
              .aggregate('count', { initial: 0, fold: (n: number) => n + 1, expireAfterMs: 50 });
            table.toStream().to({ name: 'counts' }, (count) => count);
          },
          { partitions: 1, seed: stream * 10 + way, startMs: 1000, settings: { statesMax: 2 } },
        );
        for (const one of sent) {
          driver.send('facts', asRecord(one));
          if (way === 1) await driver.run();
          if (way === 2 && upTo(4) === 0) await driver.run();
          if (way === 2 && upTo(10) === 0) driver.restart();
        }
        await driver.run();
        // What goes by the wall clock comes in the end, when all is read.
        for (let look = 0; look < 3; look++) await driver.advanceWallClock(1_000_000);
        for (const { key, value, id, destination } of driver.output)
          log.push([`${destination} ${key}`, `${id} ${value}`]);
        const byKey = Map.groupBy(log, ([key]) => key);
        outcomes.push({
          states: Object.fromEntries([...driver.store.statesOf('step')].sort()),
          out: Object.fromEntries([...byKey].sort().map(([key, own]) => [key, own.map(([, one]) => one)])),
        });
      }
      const [first, ...others] = outcomes;
      for (const other of others) expect(other, `stream ${stream}`).to.deep.equal(first);
    }
  });
});
