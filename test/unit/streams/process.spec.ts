import { expect } from 'chai';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../src/streams/testing/memory-state-store.ts';
import type { DriverOptions, TopologyTestDriver } from '../../../src/streams/testing/topology-test-driver.ts';
import type {
  Processor,
  RecordMetadata,
  TimerClock,
  TimerSetting,
} from '../../../src/streams/timers/processor.ts';
import { tumbling } from '../../../src/streams/windows.ts';
import { asRecord, driverOf, type Fact, fact, facts } from '../../support/json-stream.ts';
import { keepLines } from '../../support/logged-lines.ts';

/** What a processor has done, in the order in which it counts. */
type Seen = string;

const processing = <S, R>(
  processor: Processor<Fact, S, R>,
  options: Partial<DriverOptions> = {},
): { readonly driver: TopologyTestDriver; readonly seen: R[] } => {
  const seen: R[] = [];
  const driver = driverOf(
    (t) => {
      t.stream(facts)
        .process('step', processor)
        .peek((value) => seen.push(value));
    },
    { partitions: 1, ...options },
  );
  return { driver, seen };
};

const sendAt = (driver: TopologyTestDriver, ...times: readonly (number | Partial<Fact>)[]): void => {
  for (const given of times)
    driver.send('facts', asRecord(fact(typeof given === 'number' ? { time: given } : given)));
};

/** Tells of every record and timer; a record's kind says what to do: `set name at clock`, `cancel name`. */
const telling: Processor<Fact, never, Seen> = {
  onRecord: ({ value: { kind, time } }, { schedule, cancel, forward }) => {
    forward(`record ${time}`);
    for (const order of kind.split(', ')) {
      const [does, name = '', at, by] = order.split(' ');
      if (does === 'set') schedule({ name, atMs: Number(at), by: by as TimerClock });
      if (does === 'cancel') cancel(name);
    }
  },
  onTimer: ({ name, atMs }, { forward }) => forward(`${name} ${atMs}`),
};

describe('a process step', () => {
  it('keeps a value per key under its name, hands on what it forwards, and forgets what it deletes', async () => {
    const { driver, seen } = processing<number, string>({
      onRecord: ({ key, value: { kind, amount } }, { store, forward }) => {
        const sum = (store.get() ?? 0) + amount;
        if (kind === 'end') store.delete();
        else store.put(sum);
        for (let part = 0; part < amount; part++) forward(`${key} ${sum} ${part}`);
      },
    });
    sendAt(driver, { amount: 1 }, { amount: 2 }, { of: 'b', amount: 1 });
    await driver.run();
    driver.restart();
    expect([...driver.store.statesOf('step')]).to.deep.equal([
      ['a', { kept: 3 }],
      ['b', { kept: 1 }],
    ]);
    sendAt(driver, { amount: 1, kind: 'end' }, { amount: 1 });
    driver.redeliver();
    await driver.run();
    expect(seen.filter((one) => one.startsWith('a'))).to.deep.equal([
      'a 1 0',
      'a 3 0',
      'a 3 1',
      'a 4 0',
      'a 1 0',
    ]);
    expect([...driver.store.statesOf('step')]).to.deep.equal([
      ['a', { kept: 1 }],
      ['b', { kept: 1 }],
    ]);
  });

  it('knows where a record comes from', async () => {
    const { driver, seen } = processing<never, RecordMetadata>(
      { onRecord: ({ metadata }, { forward }) => forward(metadata) },
      { startMs: 1_000_000 },
    );
    const [plain, early] = [fact({ time: 1_000_000 }), fact({ time: 9_000_000 })];
    driver.send('facts', { ...asRecord(plain), headers: { source: Buffer.from('spec') } });
    driver.send('facts', asRecord(early));
    await driver.run();
    const [first, second] = seen;
    expect({ ...first }).to.deep.equal({
      id: plain.id,
      timeMs: 1_000_000,
      isEarly: false,
      topic: 'facts',
      partition: 0,
      offset: 0,
      headers: { source: Buffer.from('spec') },
    });
    expect([second?.id, second?.timeMs, second?.isEarly, second?.offset]).to.deep.equal([
      early.id,
      9_000_000,
      true,
      1,
    ]);
  });

  it('does not take what is made of records for records of a topic', async () => {
    const offsets: (number | undefined)[] = [];
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .pipe('as it is', (records) => records)
          .process<never, number | undefined>('behind operators', {
            onRecord: ({ metadata }, { forward }) => forward(metadata.offset),
          })
          .peek((offset) => offsets.push(offset));
      },
      { partitions: 1 },
    );
    sendAt(driver, 1, 2);
    await driver.run();
    expect(offsets).to.deep.equal([undefined, undefined]);
  });

  it('gives what it forwards ids that follow from the record, so that what is behind it counts it once', async () => {
    const counts = { table: 'counts', keyColumn: 'id', columns: ['sold'] } as const satisfies CounterTable;
    const driver = driverOf(
      (t) => {
        const parts = t.stream(facts).process<never, number>('parts', {
          onRecord: ({ value: { amount } }, { forward }) => {
            for (let part = 1; part <= amount; part++) forward(part);
          },
        });
        parts.to({ name: 'parts' }, (part) => part);
        parts.groupByKey().sum(counts, 'sold', (part) => part, {
          action: 'SOLD',
          once: () => ({ aggregateType: 'Order', aggregateId: 'o-1' }),
        });
      },
      { partitions: 1 },
    );
    sendAt(driver, { amount: 3 }, { amount: 3 });
    await driver.run();
    driver.redeliver();
    await driver.run();
    expect(new Set(driver.output.map(({ id }) => id)).size).to.equal(6);
    expect(driver.table('counts')).to.deep.equal([{ id: 'a', sold: 6 }]);
  });

  it('sends a record that it fails on to the dead letters, with nothing of it left', async () => {
    const { driver, seen } = processing<number, string>({
      onRecord: ({ value: { kind } }, { store, forward }) => {
        store.put(1);
        forward('half');
        if (kind === 'bad') throw new Error('Not this one');
      },
    });
    sendAt(driver, { kind: 'bad' });
    await driver.run();
    expect([seen, driver.store.statesOf('step').size, driver.deadLetters.length]).to.deep.equal([[], 0, 1]);
  });

  it('says what is wrong with a processor', async () => {
    const errorOf = async (processor: Processor<Fact, never, never>): Promise<string | undefined> => {
      const { driver } = processing(processor);
      sendAt(driver, 10);
      await driver.run();
      return driver.deadLetters[0]?.error.message;
    };
    const setting = (setting: TimerSetting): Processor<Fact, never, never> => ({
      onRecord: (_, { schedule }) => schedule(setting),
      onTimer: () => {},
    });
    const timer = { name: 'x', atMs: 5, by: 'stream-time' } as const;
    expect(await errorOf({ onRecord: (_, { schedule }) => schedule(timer) })).to.contain('has no onTimer');
    expect(await errorOf(setting({ ...timer, atMs: 1.5 }))).to.contain('whole milliseconds');
    expect(await errorOf({ onRecord: async () => {} })).to.contain('must not be async');
    expect(
      await errorOf({
        onRecord: (_, { schedule }) => {
          for (let index = 0; index <= 1000; index++) schedule({ ...timer, atMs: 20, name: `${index}` });
        },
        onTimer: () => {},
      }),
    ).to.contain('more than 1000 timers');
    expect(() =>
      driverOf((t) => t.stream(facts).process('s', { onRecord: () => {}, expireAfterMs: 0 })),
    ).to.throw('expireAfterMs');
  });
});

describe('a timer by the time of the stream', () => {
  it('fires once when the stream has come there, in the order of times and then of names, before the record of that time', async () => {
    const { driver, seen } = processing(telling);
    sendAt(driver, {
      time: 10,
      kind: 'set late 30 stream-time, set b 20 stream-time, set a 20 stream-time, set last 99 stream-time',
    });
    await driver.run();
    driver.restart();
    sendAt(driver, 19);
    await driver.run();
    expect(seen).to.deep.equal(['record 10', 'record 19']);
    sendAt(driver, 30, 31);
    driver.redeliver();
    await driver.run();
    await driver.advanceWallClock(1_000_000);
    expect(seen.slice(2)).to.deep.equal(['a 20', 'b 20', 'late 30', 'record 30', 'record 31']);
    sendAt(driver, { time: 98, of: 'b' });
    await driver.run();
    sendAt(driver, { time: 99, of: 'b' });
    await driver.run();
    expect(seen.slice(7)).to.deep.equal(['record 98', 'record 99', 'last 99']);
    expect(driver.store.statesOf('step').size).to.equal(0);
  });

  it('can be set anew and canceled, and is due at once where its time has passed', async () => {
    const { driver, seen } = processing(telling);
    sendAt(
      driver,
      { time: 10, kind: 'set x 20 stream-time, set y 20 stream-time, set z 15 stream-time' },
      { time: 11, kind: 'set x 30 stream-time, cancel y, cancel unknown' },
      { time: 20, kind: 'set past 5 stream-time' },
      { time: 21 },
      { time: 30 },
    );
    await driver.run();
    expect(seen).to.deep.equal([
      'record 10',
      'record 11',
      'z 15',
      'record 20',
      'past 20',
      'record 21',
      'x 30',
      'record 30',
    ]);
  });

  it('may set others, which come in their turn, and none for itself in no time', async () => {
    const { log, lines } = keepLines();
    const { driver, seen } = processing<never, Seen>(
      {
        onRecord: ({ value: { time } }, { schedule, forward }) => {
          forward(`record ${time}`);
          if (time === 0) schedule({ name: 'every', atMs: 10, by: 'stream-time' });
        },
        onTimer: ({ name, atMs }, { schedule, forward }) => {
          forward(`${name} ${atMs}`);
          schedule({ name, atMs: atMs < 40 ? atMs + 10 : atMs, by: 'stream-time' });
        },
      },
      { logger: log },
    );
    sendAt(driver, 0, 35);
    await driver.run();
    expect(seen).to.deep.equal(['record 0', 'every 10', 'every 20', 'every 30', 'record 35']);
    sendAt(driver, { time: 41, of: 'b' });
    await driver.run();
    // What it handed on before it failed is not left behind.
    expect(seen.slice(5)).to.deep.equal(['record 41']);
    expect(lines.find(({ err }) => err)?.err?.message).to.contain('later than the timer that sets it');
  });

  it('is not brought forward by a record of the far future, which still is a record', async () => {
    const { driver, seen } = processing(telling);
    sendAt(driver, { time: 10, kind: 'set x 20 stream-time, set y 20 wall-clock' }, 100_000_000);
    await driver.run();
    expect(seen).to.deep.equal(['record 10', 'record 100000000']);
  });
});

describe('a timer by the wall clock', () => {
  it('fires once when the clock has come there, whatever the stream says', async () => {
    const { driver, seen } = processing(telling, { startMs: 1000 });
    sendAt(driver, { time: 1000, kind: 'set x 1500 wall-clock' }, { time: 1700, of: 'b' });
    await driver.run();
    await driver.advanceWallClock(499);
    expect(seen).to.deep.equal(['record 1000', 'record 1700']);
    driver.restart();
    await driver.advanceWallClock(1);
    await driver.advanceWallClock(1000);
    expect(seen).to.deep.equal(['record 1000', 'record 1700', 'x 1500']);
    expect(driver.store.statesOf('step').size).to.equal(0);
  });

  it('waits for what the relay still holds, and while nobody can tell', async () => {
    const { driver, seen } = processing(telling, { startMs: 1000 });
    sendAt(driver, { time: 1000, kind: 'set x 1500 wall-clock' });
    await driver.run();
    driver.relayIsSilent(new Error('No answer'));
    await driver.advanceWallClock(1000);
    driver.relayIsSilent(undefined);
    driver.relayHolds(1400);
    await driver.advanceWallClock(1000);
    expect(seen).to.deep.equal(['record 1000']);
    sendAt(driver, { time: 1400, kind: 'cancel x, set y 1600 wall-clock' });
    driver.relayHolds(undefined);
    await driver.run();
    await driver.advanceWallClock(1000);
    expect(seen).to.deep.equal(['record 1000', 'record 1400', 'y 1600']);
  });

  it('comes before a record of its key that happened after it, also where everything is read at once', async () => {
    const { driver, seen } = processing(telling, { startMs: 5000 });
    sendAt(
      driver,
      { time: 1000, kind: 'set x 1500 wall-clock' },
      { time: 2000, of: 'b' },
      { time: 1499 },
      { time: 1500 },
    );
    await driver.run();
    expect(seen.filter((one) => one !== 'record 2000')).to.deep.equal([
      'record 1000',
      'record 1499',
      'x 1500',
      'record 1500',
    ]);
  });

  it('does not bring the time of the stream forward', async () => {
    const { driver, seen } = processing(telling, { startMs: 1000 });
    sendAt(driver, { time: 1000, kind: 'set s 1400 stream-time, set w 1500 wall-clock' });
    await driver.run();
    await driver.advanceWallClock(1000);
    sendAt(driver, { time: 1399, of: 'b' });
    await driver.run();
    expect(seen).to.deep.equal(['record 1000', 'w 1500', 'record 1399']);
  });

  it('hands on nothing that is late', async () => {
    const windows: unknown[] = [];
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .process('step', telling)
          .groupByKey()
          .windowedBy(tumbling({ sizeMs: 100, graceMs: 0 }))
          .aggregate('windows', { initial: '', fold: (all, one) => `${all} ${one}` })
          .peek(({ startMs, value }) => windows.push([startMs, value]));
      },
      { partitions: 1, startMs: 1000 },
    );
    sendAt(
      driver,
      { time: 1000, kind: 'set x 1150 wall-clock, set y 1350 wall-clock' },
      { time: 1300, of: 'b' },
    );
    await driver.run();
    await driver.advanceWallClock(360);
    sendAt(driver, { time: 1310, of: 'b' }, { time: 1320, of: 'b' });
    await driver.run();
    await driver.advanceWallClock(10_000);
    await driver.advanceWallClock(10_000);
    expect(driver.lateRecords).to.equal(0);
    expect(windows).to.have.deep.members([
      [1000, ' record 1000'],
      [1300, ' x 1150 y 1350'],
      [1300, ' record 1300 record 1310 record 1320'],
    ]);
  });
});

describe('a timer that cannot do its work', () => {
  const failing = (fails: { is: boolean }): Processor<Fact, never, Seen> => ({
    ...telling,
    onTimer: ({ name, atMs }, { forward }) => {
      forward(`${name} ${atMs}`);
      if (name === 'bad' && fails.is) throw new Error('Not now');
    },
  });

  for (const by of ['stream-time', 'wall-clock'] as const) {
    it(`is tried again a minute later, others of its key go on, and no record is to blame (${by})`, async () => {
      const { log, lines } = keepLines();
      const fails = { is: true };
      const { driver, seen } = processing(failing(fails), { startMs: 100, logger: log });
      sendAt(driver, { time: 100, kind: `set bad 110 ${by}, set good 120 ${by}` });
      await driver.run();
      driver.passTime(30);
      sendAt(driver, 130);
      await driver.run();
      expect(seen).to.deep.equal(['record 100', 'good 120', 'record 130']);
      expect(driver.deadLetters).to.deep.equal([]);
      expect(lines.find(({ err }) => err)?.err?.message).to.equal('Not now');
      await driver.advanceWallClock(59_000);
      fails.is = false;
      await driver.advanceWallClock(500);
      expect(seen).to.have.length(3);
      await driver.advanceWallClock(1000);
      expect(seen.slice(3)).to.deep.equal(['bad 110']);
      expect(driver.store.statesOf('step').size).to.equal(0);
    });
  }

  const totals = { table: 'totals', keyColumn: 'id', columns: ['fired'] } as const satisfies CounterTable;
  const refusedFor = (refusing: { is: boolean }, options: Partial<DriverOptions> = {}) => {
    const records: string[] = [];
    const driver = driverOf(
      (t) => {
        const stream = t.stream(facts).process('step', telling);
        stream.filter((one) => one.startsWith('record')).peek((one) => records.push(one));
        stream
          .filter((one) => !one.startsWith('record'))
          .groupByKey()
          .count(totals, 'fired', { action: 'FIRED' });
      },
      {
        partitions: 1,
        startMs: 100,
        store: new MemoryStateStore({
          check: (_, row) => (row.id === 'a' && refusing.is ? 'Refused' : undefined),
        }),
        ...options,
      },
    );
    return { driver, records };
  };

  it('because the database refuses it is kept, and the record behind it is applied', async () => {
    const keys = ['a', 'b', 'c'];
    const refusing = { is: true };
    const { driver, records } = refusedFor(refusing);
    sendAt(driver, ...keys.map((of) => ({ time: 100, of, kind: 'set x 110 stream-time' })));
    await driver.run();
    driver.passTime(20);
    sendAt(driver, ...keys.map((of) => ({ time: 120, of })));
    await driver.run();
    expect(driver.deadLetters).to.deep.equal([]);
    expect(records).to.have.length(6);
    expect(driver.table('totals')).to.have.deep.members([
      { id: 'b', fired: 1 },
      { id: 'c', fired: 1 },
    ]);
    refusing.is = false;
    await driver.advanceWallClock(61_000);
    expect(driver.table('totals')).to.have.deep.members(keys.map((id) => ({ id, fired: 1 })));
  });
});

describe('timers of two processes', () => {
  it('fire once where both believe in the task', async () => {
    const { driver } = processing(telling, { startMs: 100 });
    sendAt(driver, { time: 100, kind: 'set x 110 wall-clock' });
    await driver.run();
    driver.passTime(1000);
    const zombie = driver.newReader();
    await zombie.assign();
    const computed = await zombie.computeTick();
    await driver.reader.tick();
    const after = driver.store.statesOf('step').size;
    if (computed) await zombie.settle(computed);
    expect([after, computed !== undefined, driver.store.statesOf('step').size]).to.deep.equal([0, true, 0]);
  });
});

describe('batches', function () {
  // A second or two of CPU: the deadline is for machines that have other things to do.
  this.timeout(300_000);

  const random = (seed: number) => {
    let state = seed;
    return (limit: number): number => {
      state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((state / 2_147_483_648) * limit);
    };
  };
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
      const upTo = random(stream);
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
