import { expect } from 'chai';
import fc from 'fast-check';
import { RowLimits } from '../../../src/postgres/row-limits.ts';

const bytesMax = 8_000_000;
const statement = 'read-page';

describe('how many rows to ask for at once', () => {
  /** The limits after answers of so many rows of a size each. */
  const limitsAfter = (answers: readonly { rows: number; size: number }[]): readonly number[] => {
    const limits = new RowLimits();
    return answers.map(({ rows, size }) => {
      limits.learn(statement, { rows, bytes: rows * size, bytesMax });
      return limits.of(statement);
    });
  };

  it('is everything until something is known, of each statement by itself', () => {
    const limits = new RowLimits();
    limits.learn('other', { rows: 1, bytes: bytesMax, bytesMax });
    limits.learn(statement, { rows: 0, bytes: 100, bytesMax });
    expect(limits.of(statement)).to.equal(Number.POSITIVE_INFINITY);
    expect(limits.of('other')).to.equal(1);
  });

  it('falls at once when rows become large, and rises step by step when they become small', () => {
    const sizes = [300, 1_000_000, 1_000_000, 300, 300, 300, 300, 300, 300, 300];
    const limits = limitsAfter(sizes.map((size) => ({ rows: 5, size })));
    expect(limits).to.deep.equal([26_666, 8, 8, 32, 128, 512, 2048, 8192, 26_666, 26_666]);
  });

  it('is never less than one row, nor more than fits of rows like the last ones', () => {
    const answer = fc.record({
      rows: fc.integer({ min: 1, max: 5000 }),
      size: fc.integer({ min: 10, max: 50_000_000 }),
    });
    fc.assert(
      fc.property(fc.array(answer, { minLength: 1, maxLength: 20 }), (answers) => {
        for (const [index, limit] of limitsAfter(answers).entries()) {
          const size = answers[index]?.size ?? 0;
          expect(Number.isInteger(limit)).to.equal(true);
          expect(limit).to.be.within(1, Math.max(1, bytesMax / size));
        }
      }),
    );
  });
});
