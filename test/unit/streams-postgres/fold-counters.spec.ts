import { expect } from 'chai';
import { RefusedData } from '../../../src/streams/ports.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { foldCounters } from '../../../src/streams-postgres/fold-counters.ts';

const statistic: CounterTable = { table: 'statistic', keyColumn: 'id', columns: ['seen', 'sold'] };
const trend: CounterTable = { table: 'trend', keyColumn: 'id', windowColumn: 'start', columns: ['seen'] };
const fact = { aggregateType: 'Order', aggregateId: 'o', action: 'SOLD' };

describe('folding counters', () => {
  it('gives one row per key and window, with what facts add, sorted', () => {
    const row = (key: string, ...amounts: number[]) => ({ key, amounts });
    const window = (windowStartMs: number) => ({ key: 'a', windowStartMs, amounts: [1] });
    const folded = foldCounters(
      [
        { table: trend, rows: [window(20), window(10), window(20)] },
        { table: statistic, rows: [row('b', 1, 0), row('a', 2, 0), row('b', -3, 0)] },
        { table: { ...statistic }, rows: [row('c', 0, 0)] },
      ],
      [{ fact, adds: [{ table: statistic, row: row('a', 0, 5) }] }],
    );
    expect(folded).to.deep.equal([
      { table: statistic, rows: [row('a', 2, 5), row('b', -2, 0), row('c', 0, 0)] },
      {
        table: trend,
        rows: [
          { ...window(10), amounts: [1] },
          { ...window(20), amounts: [2] },
        ],
      },
    ]);
  });

  it('leaves what it was given alone', () => {
    const deltas = [{ table: statistic, rows: [{ key: 'a', amounts: [1, 0] }] }];
    foldCounters([...deltas, ...deltas], []);
    expect(deltas[0]?.rows[0]?.amounts).to.deep.equal([1, 0]);
  });

  for (const amount of [0.5, Number.NaN, Number.POSITIVE_INFINITY, Number.MAX_SAFE_INTEGER]) {
    it(`refuses a sum with ${amount} that cannot be told exactly`, () => {
      const rows = [1, amount].map((seen) => ({ key: 'a', amounts: [seen, 0] }));
      expect(() => foldCounters([{ table: statistic, rows }], [])).to.throw(RefusedData, /statistic at a/);
    });
  }
});
