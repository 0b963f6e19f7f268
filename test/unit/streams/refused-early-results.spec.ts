import { expect } from 'chai';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../src/streams/testing/memory-state-store.ts';
import type { DriverOptions, TopologyTestDriver } from '../../../src/streams/testing/topology-test-driver.ts';
import type { Emit } from '../../../src/streams/windowing/emit.ts';
import { hopping, tumbling } from '../../../src/streams/windows.ts';
import { driverOf, facts } from '../../support/json-stream.ts';
import { keepLines } from '../../support/logged-lines.ts';
import { send, sums, told } from '../../support/windowed-results.ts';

describe('an early result that cannot be handed on', () => {
  const totals = {
    table: 'totals',
    keyColumn: 'id',
    columns: ['told', 'final'],
  } as const satisfies CounterTable;
  const seen = { table: 'seen', keyColumn: 'id', columns: ['seen'] } as const satisfies CounterTable;

  const build = (
    refuses: (row: Readonly<Record<string, unknown>>) => boolean,
    { emit = 'on-update' as Emit, ...options }: Partial<DriverOptions> & { readonly emit?: Emit } = {},
  ): TopologyTestDriver =>
    driverOf(
      (t) => {
        const stream = t.stream(facts);
        stream.groupByKey().count(seen, 'seen', { action: 'SEEN' });
        const windows = stream
          .groupByKey()
          .windowedBy(hopping({ sizeMs: 100, advanceMs: 50, graceMs: 0 }))
          .emit(emit)
          .aggregate('windows', sums);
        windows.to({ name: 'results' }, (window) => window);
        windows
          .filter(({ isFinal }) => !isFinal)
          .groupByKey()
          .sum(totals, 'told', ({ value }) => value, { action: 'TOLD' });
        windows
          .filter(({ isFinal }) => isFinal)
          .groupByKey()
          .sum(totals, 'final', ({ value }) => value, { action: 'FINAL' });
      },
      {
        partitions: 1,
        store: new MemoryStateStore({
          check: (table, row) => (table === 'totals' && refuses(row) ? 'not welcome' : undefined),
        }),
        ...options,
      },
    );
  const totalOf = (driver: TopologyTestDriver, key: string) =>
    driver.table('totals').find(({ id }) => id === key);
  const finalsOf = (driver: TopologyTestDriver, key: string): readonly string[] =>
    told(driver, key).filter((text) => text.endsWith('!'));

  it('blames no record, lets the others through, and is tried again with the latest value', async () => {
    let isRefusing = true;
    const { log, lines } = keepLines();
    const driver = build(({ id }) => isRefusing && id === 'bad', { logger: log });
    send(driver, [60, 'bad'], [61, 'good'], [62, 'bad'], [63, 'good']);
    await driver.run();
    expect(driver.deadLetters).to.deep.equal([]);
    expect(driver.table('seen')).to.have.deep.members([
      { id: 'bad', seen: 2 },
      { id: 'good', seen: 2 },
    ]);
    expect(told(driver, 'good')).to.deep.equal(['0-100 1', '50-150 1', '0-100 2', '50-150 2']);
    expect(told(driver, 'bad')).to.deep.equal([]);
    expect(lines.filter(({ level }) => level >= 50).map(({ err }) => err?.message)).to.deep.equal([
      'not welcome',
    ]);
    driver.restart();
    isRefusing = false;
    await driver.advanceWallClock(99);
    expect(told(driver, 'bad'), 'not before a while').to.deep.equal([]);
    await driver.advanceWallClock(60_000);
    expect(finalsOf(driver, 'bad')).to.deep.equal(['0-100 2!', '50-150 2!']);
    expect(totalOf(driver, 'bad')).to.include({ final: 4 });
  });

  it('is tried again in its time where its window is still open', async () => {
    let isRefusing = true;
    const hour_ms = 3_600_000;
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .groupByKey()
          .windowedBy(tumbling({ sizeMs: hour_ms, graceMs: 0 }))
          .emit('on-update')
          .aggregate('windows', sums)
          .map((window) => {
            if (isRefusing) throw new Error('not now');
            return window;
          })
          .to({ name: 'results' }, (window) => window);
      },
      { partitions: 1 },
    );
    send(driver, 10, 20);
    await driver.run();
    send(driver, 30);
    await driver.run();
    expect(driver.deadLetters).to.deep.equal([]);
    isRefusing = false;
    await driver.advanceWallClock(70_000);
    expect(told(driver)).to.deep.equal([`0-${hour_ms} 3`]);
    send(driver, 70_010);
    await driver.run();
    expect(told(driver)).to.deep.equal([`0-${hour_ms} 3`, `0-${hour_ms} 4`]);
  });

  it('for ever does not keep a final result back', async () => {
    const driver = build((row) => Number(row.told) > 0, { partitions: 1 });
    send(driver, 60, 70);
    await driver.run();
    for (const time of [110, 160, 170, 400]) {
      send(driver, time);
      await driver.run();
    }
    for (let look = 0; look < 5; look++) await driver.advanceWallClock(70_000);
    expect(driver.deadLetters).to.deep.equal([]);
    expect(finalsOf(driver, 'a')).to.deep.equal([
      '0-100 2!',
      '50-150 3!',
      '100-200 3!',
      '150-250 2!',
      '350-450 1!',
      '400-500 1!',
    ]);
    expect(told(driver)).to.have.length(6);
    expect(driver.store.statesOf('windows').size).to.equal(0);
  });

  it('is tried alone when its time comes again, so that no final result is refused with it', async () => {
    const minute_ms = 60_000;
    const windows = hopping({ sizeMs: 2 * minute_ms, advanceMs: minute_ms, graceMs: 0 });
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .groupByKey()
          .windowedBy(windows)
          .emit('on-update')
          .aggregate('windows', sums)
          .map((window) => {
            if (!window.isFinal) throw new Error('no early ones');
            return window;
          })
          .to({ name: 'results' }, (window) => window);
      },
      { partitions: 1 },
    );
    send(driver, minute_ms + 10);
    await driver.run();
    // The final result of the first window is due by then, and another try with the second one.
    await driver.advanceWallClock(2 * minute_ms + 20);
    expect(told(driver)).to.deep.equal([`0-${2 * minute_ms} 1!`]);
    // The first look finds the next try, the second one the end of the window.
    for (let look = 0; look < 2; look++) await driver.advanceWallClock(minute_ms / 2);
    expect(told(driver)).to.deep.equal([`0-${2 * minute_ms} 1!`, `${minute_ms}-${3 * minute_ms} 1!`]);
  });

  it('is not tried again with every record of its key', async () => {
    let commits = 0;
    class CountingStore extends MemoryStateStore {
      override commit(batch: Parameters<MemoryStateStore['commit']>[0]) {
        commits++;
        return super.commit(batch);
      }
    }
    const store = new CountingStore({
      check: (table) => (table === 'totals' ? 'not welcome' : undefined),
    });
    const driver = build(() => false, { store });
    send(driver, 60);
    await driver.run();
    commits = 0;
    for (let time = 61; time < 81; time++) {
      send(driver, time);
      await driver.run();
    }
    expect(commits).to.equal(20);
  });
});
