import { expect } from 'chai';
import { map as change, concatMap, from, type OperatorFunction } from 'rxjs';
import type { StreamRecord } from '../../../src/streams/graph.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { tumbling } from '../../../src/streams/windows.ts';
import { asRecord, driverOf, type Fact, fact, facts } from '../../support/json-stream.ts';

const counts = {
  table: 'counts',
  keyColumn: 'id',
  columns: ['seen', 'sold'],
} as const satisfies CounterTable;
const windowed = {
  table: 'windowed',
  keyColumn: 'id',
  windowColumn: 'window_start',
  columns: ['seen'],
} as const satisfies CounterTable;
const action = 'COUNTED';

const intoParts = (
  parts: number,
): OperatorFunction<StreamRecord<Fact>, StreamRecord<Fact & { part: number }>> =>
  concatMap((record) =>
    from(Array.from({ length: parts }, (_, part) => ({ ...record, value: { ...record.value, part } }))),
  );
const asItIs = change((record: StreamRecord<Fact>) => ({ ...record }));

describe('what comes out of RxJS operators', () => {
  it('counts under the fact of the record it comes from, all parts of it and once', async () => {
    const driver = driverOf((t) => {
      t.stream(facts)
        .pipe('parts', intoParts(3))
        .groupByKey()
        .sum(counts, 'sold', ({ amount }) => amount, {
          action,
          once: ({ kind }) => ({ aggregateType: 'Order', aggregateId: kind }),
        });
    });
    for (const kind of ['order-1', 'order-1', 'order-2'])
      driver.send('facts', asRecord(fact({ kind, amount: 2 })));
    await driver.run();
    expect(driver.table('counts')).to.deep.equal([{ id: 'a', seen: 0, sold: 12 }]);
  });

  it('may not have another key: its state would be in a partition of somebody else', async () => {
    const driver = driverOf((t) => {
      t.stream(facts)
        .pipe(
          'rename',
          change((record) => ({ ...record, key: record.value.kind })),
        )
        .groupByKey()
        .aggregate('sums', { initial: 0, fold: (sum, { amount }) => sum + amount });
    });
    driver.send('facts', asRecord(fact({ of: 'a', kind: 'b' })));
    driver.send('facts', asRecord(fact({ of: 'a', kind: 'a' })));
    await driver.run();
    expect(driver.deadLetters.map(({ error }) => error.message)).to.deep.equal([
      'The operators of rename changed the key of a record from a to b: states are kept where their key has its partition. ' +
        'Leave the key as it is, and use groupBy(key, { through }) behind the operators to go on by another one',
    ]);
    expect([...driver.store.statesOf('sums')]).to.deep.equal([['a', 1]]);
  });

  it('is as late as the record was that went in, whatever else its batch brings', async () => {
    const run = async (together: boolean) => {
      const driver = driverOf(
        (t) => {
          const piped = t.stream(facts).pipe('same', asItIs);
          const windows = tumbling({ sizeMs: 100, graceMs: 0 });
          piped.groupByKey().windowedBy(windows).count(windowed, 'seen', { action });
          piped
            .groupByKey()
            .windowedBy(windows)
            .aggregate('windows', { initial: 0, fold: (sum) => sum + 1 })
            .groupBy(() => 'final')
            .sum(counts, 'sold', ({ value }) => value, { action });
        },
        { partitions: 1 },
      );
      for (const time of [10, 50, 120, 30, 250]) {
        driver.send('facts', asRecord(fact({ time })));
        if (!together) await driver.run();
      }
      await driver.run();
      const [final] = driver.table('counts');
      return {
        late: driver.lateRecords,
        final: final?.sold,
        windows: driver.table('windowed').map(({ window_start, seen }) => [window_start, seen]),
      };
    };
    const apart = await run(false);
    expect(apart).to.deep.equal({
      late: 2,
      final: 3,
      windows: [
        [0, 2],
        [100, 1],
        [200, 1],
      ],
    });
    expect(await run(true)).to.deep.equal(apart);
  });
});
