import { expect } from 'chai';
import fc from 'fast-check';
import { hasReached, recordsBetween } from '../../../src/rebuild/positions.ts';

const position = fc
  .array(fc.nat({ max: 50 }), { minLength: 1, maxLength: 6 })
  .map((offsets) => offsets.map((offset, partition) => ({ topic: 't', partition, offset })));

describe('positions in topics', () => {
  it('are reached where nothing lies between', () => {
    fc.assert(
      fc.property(position, position, (a, b) => {
        expect(hasReached(a, b)).to.equal(
          b.every(({ partition, offset }) => (a[partition]?.offset ?? 0) >= offset),
        );
        expect(recordsBetween(a, a)).to.equal(0);
      }),
    );
  });

  it('do not make up for what is missing in one place with what is too much in another', () => {
    const at = (...offsets: readonly number[]) =>
      offsets.map((offset, partition) => ({ topic: 't', partition, offset }));
    expect(recordsBetween(at(10, 0), at(5, 3))).to.equal(3);
    expect(hasReached(at(10, 0), at(5, 3))).to.equal(false);
    expect(hasReached([], at(0, 0))).to.equal(true);
  });
});
