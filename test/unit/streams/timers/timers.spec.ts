import { expect } from 'chai';
import type { CounterTable } from '../../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../../src/streams/testing/memory-state-store.ts';
import type { DriverOptions } from '../../../../src/streams/testing/topology-test-driver.ts';
import type { Processor } from '../../../../src/streams/timers/processor.ts';
import { tumbling } from '../../../../src/streams/windows.ts';
import { driverOf, type Fact, facts } from '../../../support/json-stream.ts';
import { keepLines } from '../../../support/logged-lines.ts';

import { processing, type Seen, sendAt, telling } from '../../../support/processing.ts';

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
