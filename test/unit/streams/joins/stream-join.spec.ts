import { expect } from 'chai';
import { describeTopology, drawTopology } from '../../../../src/streams/describe.ts';
import { joinWindows } from '../../../../src/streams/joins/join-windows.ts';
import type { JoinKind } from '../../../../src/streams/joins/stream-join.ts';
import type { CounterTable } from '../../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../../src/streams/testing/memory-state-store.ts';
import type {
  DriverOptions,
  TopologyTestDriver,
} from '../../../../src/streams/testing/topology-test-driver.ts';
import { tumbling } from '../../../../src/streams/windows.ts';
import { asRecord, driverOf, type Fact, fact, facts, specTopology } from '../../../support/json-stream.ts';

const others = { topic: 'others' } as typeof facts;
const windows = joinWindows({ beforeMs: 10, afterMs: 50, graceMs: 20 });
const counts = { table: 'counts', keyColumn: 'id', columns: ['pairs'] } as const satisfies CounterTable;

const textOf = (left: Fact | undefined, right: Fact | undefined): string =>
  `${left?.kind ?? '-'} ${right?.kind ?? '-'}`;

const joinOf = (
  kind: JoinKind,
  options: Partial<DriverOptions> = {},
  within = { name: 'met', windows },
): TopologyTestDriver =>
  driverOf((t) => {
    const left = t.stream(facts);
    const right = t.stream(others);
    const joined =
      kind === 'inner'
        ? left.join(right, textOf, within)
        : kind === 'left'
          ? left.leftJoin(right, textOf, within)
          : left.outerJoin(right, textOf, within);
    joined.to({ name: 'pairs' }, (pair) => pair);
  }, options);

/** `l10` is a record of the left side at 10. */
const send = (driver: TopologyTestDriver, ...records: readonly string[]): void => {
  for (const record of records) {
    const time = Number(record.slice(1));
    driver.send(record.startsWith('l') ? 'facts' : 'others', asRecord(fact({ time, kind: record })));
  }
};

const inTurn = async (driver: TopologyTestDriver, ...records: readonly string[]): Promise<void> => {
  for (const record of records) {
    send(driver, record);
    await driver.run();
  }
};

const pairsOf = (driver: TopologyTestDriver): readonly (readonly [unknown, number])[] =>
  driver.output.map(({ value, timeMs }) => [value, timeMs] as const);

describe('a join of two streams', () => {
  it('hands on every pair of a key that lies in the window, at the time of the later one', async () => {
    const driver = joinOf('inner');
    await inTurn(driver, 'l100', 'r150', 'r90', 'r151', 'r89', 'l141');
    expect(pairsOf(driver)).to.deep.equal([
      ['l100 r150', 150],
      ['l100 r90', 100],
      ['l141 r150', 150],
      ['l141 r151', 151],
    ]);
  });

  it('keeps keys apart', async () => {
    const driver = joinOf('inner');
    driver.send('facts', asRecord(fact({ time: 10, of: 'a', kind: 'l' })));
    driver.send('others', asRecord(fact({ time: 10, of: 'b', kind: 'r' })));
    await driver.run();
    expect(driver.output).to.deep.equal([]);
  });

  it('gives a pair the same id whichever side comes first, and however often', async () => {
    const [left, right] = [fact({ time: 10, kind: 'l' }), fact({ time: 20, kind: 'r' })];
    const ids = [];
    for (const order of [
      [left, right],
      [right, left],
    ]) {
      const driver = joinOf('inner');
      for (const one of order) {
        driver.send(one === left ? 'facts' : 'others', asRecord(one));
        await driver.run();
        driver.redeliver();
        driver.restart();
        await driver.run();
      }
      expect(driver.output).to.have.length(1);
      ids.push(driver.output[0]?.id);
    }
    expect(ids[0]).to.equal(ids[1]);
  });

  it('says once that a record of the left has met nobody, when its window and the grace are over and not before', async () => {
    const driver = joinOf('left');
    await inTurn(driver, 'l100', 'r170');
    expect(pairsOf(driver)).to.deep.equal([]);
    await inTurn(driver, 'r171');
    expect(pairsOf(driver)).to.deep.equal([['l100 -', 171]]);
    driver.redeliver();
    driver.restart();
    await driver.run();
    await driver.advanceWallClock(1_000_000);
    expect(pairsOf(driver)).to.deep.equal([['l100 -', 171]]);
  });

  it('never says so of a record that has met somebody', async () => {
    const driver = joinOf('outer');
    await inTurn(driver, 'l100', 'r110', 'r111', 'l500');
    await driver.advanceWallClock(1_000_000);
    expect(pairsOf(driver).map(([pair]) => pair)).to.deep.equal(['l100 r110', 'l100 r111', 'l500 -']);
    expect(driver.store.statesOf('met').size).to.equal(0);
  });

  it('tells of both sides that met nobody where it is an outer one', async () => {
    const driver = joinOf('outer');
    await inTurn(driver, 'r100', 'l200', 'l1000');
    expect(pairsOf(driver)).to.deep.equal([
      ['- r100', 131],
      ['l200 -', 271],
    ]);
  });

  it('closes by the wall clock when the streams are quiet, and takes nothing into what is closed', async () => {
    for (const kind of ['inner', 'left'] as const) {
      const driver = joinOf(kind);
      send(driver, 'l100');
      await driver.run();
      await driver.advanceWallClock(171);
      const alone = kind === 'left' ? ['l100 -'] : [];
      expect(pairsOf(driver).map(([pair]) => pair)).to.deep.equal(alone);
      await inTurn(driver, 'r140');
      expect(pairsOf(driver).map(([pair]) => pair)).to.deep.equal(alone);
      expect(driver.lateRecords).to.equal(1);
    }
  });

  it('counts what comes when its window is over and nobody waits for it', async () => {
    const driver = joinOf('outer');
    await inTurn(driver, 'l1000', 'r900');
    expect(driver.lateRecords).to.equal(1);
    // Its own window is over, but somebody still waits for it.
    await inTurn(driver, 'l1035', 'r1001');
    expect(driver.lateRecords).to.equal(1);
    expect(pairsOf(driver).map(([pair]) => pair)).to.deep.equal(['l1000 r1001']);
  });

  it('keeps a result that the database refuses, and hands it on once it does not', async () => {
    let isRefusing = true;
    const store = new MemoryStateStore({ check: () => (isRefusing ? 'not now' : undefined) });
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .leftJoin(t.stream(others), textOf, { name: 'met', windows })
          .groupByKey()
          .count(counts, 'pairs', { action: 'MET' });
      },
      { store },
    );
    await inTurn(driver, 'l100');
    await driver.advanceWallClock(500);
    expect(driver.table('counts')).to.deep.equal([]);
    isRefusing = false;
    await driver.advanceWallClock(100_000);
    expect(driver.table('counts')).to.deep.equal([{ id: 'a', pairs: 1 }]);
    expect(driver.deadLetters).to.deep.equal([]);
  });

  it('takes only so many records of a key, and says what to do about more', async () => {
    const driver = joinOf('inner', {}, { name: 'met', windows, bufferedMax: 2 } as never);
    send(driver, 'l100', 'l101', 'l102', 'r103');
    await driver.run();
    expect(driver.deadLetters.map(({ error }) => error.message)).to.deep.equal([
      '2 records of a wait on the left side of the join met: raise its bufferedMax, or make its windows or their grace shorter',
    ]);
    expect(driver.output).to.have.length(2);
  });

  it('joins a stream with itself', async () => {
    const driver = driverOf((t) => {
      const stream = t.stream(facts);
      stream.join(stream, textOf, { name: 'self', windows }).to({ name: 'pairs' }, (pair) => pair);
    });
    await inTurn(driver, 'l100', 'l105');
    expect(pairsOf(driver).map(([pair]) => pair)).to.have.members([
      'l100 l100',
      'l105 l100',
      'l100 l105',
      'l105 l105',
    ]);
    expect(new Set(driver.output.map(({ id }) => id)).size).to.equal(4);
  });

  it('hands pairs on to windows, which take them by the time of the pair', async () => {
    const driver = driverOf((t) => {
      t.stream(facts)
        .join(t.stream(others), textOf, { name: 'met', windows })
        .groupByKey()
        .windowedBy(tumbling({ sizeMs: 100, graceMs: 0 }))
        .aggregate('pairs', { initial: '', fold: (all: string, pair) => `${all}${pair};` })
        .to({ name: 'windows' }, (window) => window);
    });
    await inTurn(driver, 'l90', 'r110', 'r120', 'l230');
    expect(driver.output.map(({ value }) => value)).to.deep.equal([
      { key: 'a', startMs: 100, endMs: 200, value: 'l90 r110;l90 r120;', isFinal: true },
    ]);
  });

  it('is described and drawn with both its sides', () => {
    const built = specTopology((t) => {
      t.stream(facts).leftJoin(t.stream(others), textOf, { name: 'met', windows });
    });
    expect(describeTopology(built)).to.include(
      [
        '  1. from facts',
        '    2. left side of met',
        '      3. left join met, from 10 ms before to 50 ms after, grace 20 ms',
        '  4. from others',
        '    5. right side of met',
        '      → step 3',
      ].join('\n'),
    );
    expect(drawTopology(built)).to.include('  n5 --> n3');
  });
});

describe('windows of joins', () => {
  it('that make no sense are refused', () => {
    expect(() => joinWindows({ beforeMs: -1, afterMs: 0, graceMs: 0 })).to.throw('beforeMs');
  });
});

describe('sides of a join', () => {
  it('must have the same key, and the message says how to get there', () => {
    const orders = { topic: 'orders', key: 'orderId' } as typeof facts;
    const payments = { topic: 'payments', key: 'paymentId' } as typeof facts;
    const repartition = { topic: 'rekeyed', read: (value: unknown) => value as never };
    const within = { name: 'met', windows };
    expect(() =>
      specTopology((t) => void t.stream(orders).join(t.stream(payments), textOf, within)),
    ).to.throw('different keys (orderId, paymentId; topics orders, payments)');
    expect(() =>
      specTopology((t) => void t.stream(orders).join(t.stream(payments).toTable('payments'), textOf)),
    ).to.throw('selectKey(key, { through })');
    expect(() =>
      specTopology(
        (t) => {
          const byOrder = t
            .stream(payments)
            .selectKey(({ of }) => of, { through: 'by-order', keyedBy: 'orderId' });
          t.stream(orders).join(byOrder, textOf, within);
        },
        { repartition },
      ),
    ).not.to.throw();
  });

  it('must not be grouped', () => {
    expect(() =>
      specTopology((t) => {
        const grouped = t.stream(others).groupBy(({ kind }) => kind);
        t.stream(facts).join(grouped as never, textOf, { name: 'met', windows });
      }),
    ).to.throw('what is grouped cannot be joined');
  });
});
