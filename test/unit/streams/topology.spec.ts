import { expect } from 'chai';
import { bufferCount, map as change, filter as keep, mergeMap } from 'rxjs';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { session } from '../../../src/streams/windows.ts';
import { asRecord, driverOf, type Fact, fact, facts } from '../../support/json-stream.ts';

const counts = {
  table: 'counts',
  keyColumn: 'id',
  columns: ['seen', 'sold'],
} as const satisfies CounterTable;
const action = 'COUNTED';

describe('topology', () => {
  it('counts by key, from several partitions into the same rows', async () => {
    const driver = driverOf((t) => {
      t.stream(facts)
        .groupBy((value) => value.kind)
        .count(counts, 'seen', { action });
    });
    for (let index = 0; index < 30; index++) driver.send('facts', asRecord(fact({ of: `k${index}` })));
    await driver.run();
    expect(driver.table('counts')).to.deep.equal([{ id: 'seen', seen: 30, sold: 0 }]);
  });

  it('filters, maps, and takes things apart', async () => {
    const driver = driverOf((t) => {
      t.stream(facts)
        .filter(({ kind }) => kind === 'sold')
        .flatMap(({ of, amount }) => [
          { of, amount },
          { of: 'all', amount },
        ])
        .map(({ of, amount }) => ({ of, doubled: amount * 2 }))
        .groupBy(({ of }) => of)
        .sum(counts, 'sold', ({ doubled }) => doubled, { action });
    });
    driver.send('facts', asRecord(fact({ kind: 'sold', of: 'a', amount: 3 })));
    driver.send('facts', asRecord(fact({ kind: 'sold', of: 'b', amount: 4 })));
    driver.send('facts', asRecord(fact({ kind: 'seen', of: 'b', amount: 5 })));
    await driver.run();
    expect(driver.table('counts')).to.have.deep.members([
      { id: 'a', seen: 0, sold: 6 },
      { id: 'b', seen: 0, sold: 8 },
      { id: 'all', seen: 0, sold: 14 },
    ]);
  });

  it('sends each record into the first branch that takes it, and brings streams together again', async () => {
    const driver = driverOf((t) => {
      const { large, sold } = t.stream(facts).branch({
        large: ({ amount }: Fact) => amount > 10,
        sold: ({ kind }: Fact) => kind === 'sold',
      });
      large.groupBy(() => 'large').count(counts, 'seen', { action });
      sold.groupBy(() => 'sold').count(counts, 'seen', { action });
      large
        .merge(sold)
        .groupBy(() => 'either')
        .count(counts, 'seen', { action });
    });
    for (const [kind, amount] of [
      ['sold', 1],
      ['sold', 11],
      ['seen', 12],
      ['seen', 2],
    ] as const)
      driver.send('facts', asRecord(fact({ kind, amount })));
    await driver.run();
    expect(driver.table('counts').map(({ id, seen }) => [id, seen])).to.have.deep.members([
      ['large', 2],
      ['sold', 1],
      ['either', 3],
    ]);
  });

  it('makes sure of a row without counting anything', async () => {
    const driver = driverOf((t) => {
      t.stream(facts).groupByKey().toRow(counts);
    });
    driver.send('facts', asRecord(fact({ of: 'new' })));
    await driver.run();
    expect(driver.table('counts')).to.deep.equal([{ id: 'new', seen: 0, sold: 0 }]);
  });

  it('counts a fact once that several events tell of, with all it adds', async () => {
    const driver = driverOf((t) => {
      t.stream(facts)
        .flatMap((value) => [value, { ...value, of: `${value.of}2` }])
        .groupBy(({ of }) => of)
        .sum(counts, 'sold', ({ amount }) => amount, {
          action,
          once: ({ kind }) => ({ aggregateType: 'Order', aggregateId: kind }),
        });
    });
    for (let again = 0; again < 3; again++) {
      driver.send('facts', asRecord(fact({ kind: 'order-1', amount: 5 })));
      await driver.run();
      driver.send('facts', asRecord(fact({ kind: 'order-1', amount: 5 })));
    }
    await driver.run();
    expect(driver.table('counts')).to.have.deep.members([
      { id: 'a', seen: 0, sold: 5 },
      { id: 'a2', seen: 0, sold: 5 },
    ]);
  });

  it('looks at values once each, after they are committed', async () => {
    const looked: string[] = [];
    const driver = driverOf((t) => {
      t.stream(facts)
        .peek(({ of }) => looked.push(of))
        .groupByKey()
        .aggregate('sum', {
          initial: { sum: 0 },
          fold: (state, { amount }) => ({ sum: state.sum + amount }),
        });
    });
    for (const name of ['a', 'b', 'c']) driver.send('facts', asRecord(fact({ of: name })));
    await driver.run();
    expect(looked.toSorted()).to.deep.equal(['a', 'b', 'c']);
  });

  it('takes any RxJS operator, also one that takes time', async () => {
    const driver = driverOf((t) => {
      t.stream(facts)
        .pipe(
          'pairs',
          keep(({ value }) => value.kind === 'seen'),
          mergeMap(async (record) => record, 1),
          bufferCount(2),
          change(([first, ...others]) => {
            if (!first) throw new Error('A buffer without records');
            return { ...first, value: [first.value, ...others.map(({ value }) => value)] };
          }),
        )
        .groupBy((values) => String(values.length))
        .count(counts, 'seen', { action });
    });
    for (let index = 0; index < 7; index++) driver.send('facts', asRecord(fact({ of: 'a' })));
    driver.send('facts', asRecord(fact({ kind: 'other' })));
    await driver.run();
    const all = driver.table('counts').reduce((sum, { id, seen }) => sum + Number(id) * Number(seen), 0);
    expect(all).to.equal(7);
  });

  it('keeps a state per key, over restarts', async () => {
    const driver = driverOf((t) => {
      t.stream(facts)
        .groupByKey()
        .aggregate('sums', {
          initial: { sum: 0 },
          fold: (state, { amount }) => ({ sum: state.sum + amount }),
        });
    });
    for (let index = 1; index <= 40; index++) {
      driver.send('facts', asRecord(fact({ of: `k${index % 4}`, amount: index })));
      if (index % 10 === 0) {
        await driver.run();
        driver.restart();
      }
    }
    expect(driver.table('sums')).to.have.deep.members([
      { key: 'k0', sum: 220 },
      { key: 'k1', sum: 190 },
      { key: 'k2', sum: 200 },
      { key: 'k3', sum: 210 },
    ]);
  });

  it('reduces, and joins a stream with the latest row of a table', async () => {
    const rows = { topic: 'rows' } as { readonly topic: string; readonly value?: Fact };
    const joined: string[] = [];
    const driver = driverOf((t) => {
      const largest = t
        .stream(rows)
        .groupByKey()
        .reduce('largest', (one, other) => (one.amount > other.amount ? one : other));
      const stream = t.stream(facts);
      stream.join(largest, (value, row) => `${value.of}:${row.amount}`).peek((text) => joined.push(text));
      stream
        .leftJoin(largest, (value, row) => `${value.of}?${row?.amount ?? 'none'}`)
        .peek((text) => joined.push(text));
    });
    driver.send('rows', asRecord(fact({ of: 'a', amount: 1 })));
    driver.send('rows', asRecord(fact({ of: 'a', amount: 7 })));
    driver.send('rows', asRecord(fact({ of: 'a', amount: 2 })));
    await driver.run();
    driver.send('facts', asRecord(fact({ of: 'a' })));
    driver.send('facts', asRecord(fact({ of: 'b' })));
    await driver.run();
    expect(joined.toSorted()).to.deep.equal(['a:7', 'a?7', 'b?none']);
  });

  it('keeps null as a state like any other', async () => {
    const nullable = {
      initial: 'none' as string | null,
      fold: (last: string | null) => (last === null ? 'was null' : null),
    };
    const windowed: unknown[] = [];
    const driver = driverOf((t) => {
      const grouped = t.stream(facts).groupByKey();
      grouped.aggregate('last', nullable);
      grouped
        .windowedBy(session({ gapMs: 10, graceMs: 0 }))
        .aggregate('sessions', { ...nullable, merge: (one) => one })
        .peek(({ value }) => windowed.push(value));
    });
    for (const id of [1, 2, 3]) {
      driver.send('facts', asRecord(fact({ amount: id })));
      await driver.run();
      driver.restart();
      const expected = id % 2 === 1 ? null : 'was null';
      expect([...driver.store.statesOf('last').values()]).to.deep.equal([expected]);
    }
    await driver.advanceWallClock(10_000_000);
    expect(windowed).to.deep.equal([null]);
  });

  it('forgets the row of a key whose value is null, and joins as if there had been none', async () => {
    const rows = { topic: 'rows' } as typeof facts;
    const joined: string[] = [];
    const changes: unknown[] = [];
    const driver = driverOf((t) => {
      const table = t
        .stream(rows)
        .map((row) => (row.kind === 'deleted' ? null : row))
        .toTable('rows');
      table.toStream().peek((row) => changes.push(row?.amount ?? null));
      t.stream(facts)
        .leftJoin(table, (value, row) => `${value.of}?${row?.amount ?? 'none'}`)
        .peek((text) => joined.push(text));
      t.stream(facts)
        .join(table, (value, row) => `${value.of}:${row.amount}`)
        .peek((text) => joined.push(text));
    });
    for (const [kind, amount] of [
      ['written', 5],
      ['deleted', 0],
      ['written', 7],
      ['deleted', 0],
    ] as const) {
      driver.send('rows', asRecord(fact({ kind, amount })));
      await driver.run();
      driver.restart();
      driver.send('facts', asRecord(fact()));
      await driver.run();
    }
    expect(joined).to.deep.equal(['a?5', 'a:5', 'a?none', 'a?7', 'a:7', 'a?none']);
    expect(changes).to.deep.equal([5, null, 7, null]);
    expect(driver.store.statesOf('rows').size).to.equal(0);
  });

  it('derives events whose ids follow from what they come from', async () => {
    const driver = driverOf((t) => {
      t.stream(facts).to({ name: 'alarms' }, ({ of }) => ({ of }));
    });
    const source = fact();
    driver.send('facts', asRecord(source));
    driver.redeliver();
    await driver.run();
    expect(
      driver.output.map(({ destination, key, value, causationId }) => ({
        destination,
        key,
        value,
        causationId,
      })),
    ).to.deep.equal([{ destination: 'alarms', key: 'a', value: { of: 'a' }, causationId: source.id }]);
    expect(driver.output[0]?.id).to.match(
      /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    );
    expect(driver.output[0]?.id.slice(0, 13)).to.equal(source.id.slice(0, 13));
  });

  it('hands records on in the order of their versions as the step before made them', async () => {
    const seen: unknown[] = [];
    const driver = driverOf((t) => {
      t.stream(facts)
        .map(({ amount }) => ({ version: amount }))
        .inOrder('versions', { version: ({ version }) => version })
        .peek((value) => seen.push(value));
    });
    for (const amount of [2, 1]) driver.send('facts', asRecord(fact({ amount })));
    await driver.run();
    expect(seen).to.deep.equal([{ version: 1 }, { version: 2 }]);
  });

  it('hands records on in the order of their versions, and keeps what comes early', async () => {
    const seen: string[] = [];
    const driver = driverOf((t) => {
      t.stream(facts)
        .inOrder('versions', { version: ({ amount }) => amount })
        .peek(({ of, amount }) => seen.push(`${of}${amount}`));
    });
    for (const amount of [1, 3, 4, 4, 6]) driver.send('facts', asRecord(fact({ amount })));
    await driver.run();
    expect(seen).to.deep.equal(['a1']);
    driver.restart();
    driver.send('facts', asRecord(fact({ amount: 2 })));
    driver.send('facts', asRecord(fact({ amount: 1 })));
    await driver.run();
    expect(seen).to.deep.equal(['a1', 'a2', 'a3', 'a4']);
    expect(driver.table('versions')[0]).to.include({ next: 5 });
  });

  it('does things outside before it moves on', async () => {
    const called: string[] = [];
    const driver = driverOf((t) => {
      t.stream(facts).call('forget', async (values) => void called.push(...values.map(({ of }) => of)));
    });
    driver.send('facts', asRecord(fact({ of: 'x' })));
    await driver.run();
    expect(called).to.deep.equal(['x']);
  });

  it('refuses definitions that cannot work', () => {
    const define = (build: Parameters<typeof driverOf>[0]) => () => driverOf(build);
    const windowless = { ...counts, windowColumn: 'window_start' };
    expect(
      define((t) => {
        const grouped = t.stream(facts).groupByKey();
        grouped.reduce('twice', (one) => one);
        grouped.reduce('twice', (one) => one);
      }),
    ).to.throw('two states called twice');
    expect(define((t) => t.stream(facts).groupByKey().count(windowless, 'seen', { action }))).to.throw(
      'column for windows',
    );
    expect(
      define((t) => {
        t.stream(facts).groupBy(({ of }) => of, { through: 'by-other' });
      }),
    ).to.throw('say with repartition');
  });
});
