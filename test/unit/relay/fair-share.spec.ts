import { expect } from 'chai';
import fc from 'fast-check';
import { fairShare } from '../../../src/relay/fair-share.ts';

type Holders = Map<number, string>;

const relays = ['a', 'b', 'c', 'd', 'e'];

/** Everybody asks once, in the given order, and does what it is told. */
const round = (holders: Holders, live: readonly string[], shards: number, order: readonly string[]): void => {
  for (const me of order) {
    const { take, giveBack } = fairShare({ shards, me, live, holders });
    for (const number of giveBack) {
      expect(holders.get(number)).to.equal(me);
      holders.delete(number);
    }
    for (const number of take) {
      expect(holders.has(number)).to.equal(false);
      holders.set(number, me);
    }
  }
};

const countsOf = (holders: Holders, live: readonly string[]): readonly number[] =>
  live.map((relay) => [...holders.values()].filter((holder) => holder === relay).length);

/** Who is alive, and in which order they ask. */
const crowd = fc
  .subarray(relays, { minLength: 1 })
  .chain((live) =>
    fc.record({ live: fc.constant(live), order: fc.shuffledSubarray(live, { minLength: live.length }) }),
  );

describe('a fair share of the shards', () => {
  it('is reached from wherever one begins, while relays come and go', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 12 }),
        fc.array(crowd, { minLength: 1, maxLength: 5 }),
        (shards, times) => {
          const holders: Holders = new Map();
          for (const { live, order } of times) {
            // The leases of those who went have run out.
            for (const [number, holder] of holders) if (!live.includes(holder)) holders.delete(number);
            for (let turn = 0; turn < 4; turn++) round(holders, live, shards, order);
            expect(holders.size, 'shards that have an owner').to.equal(shards);
            const counts = countsOf(holders, live);
            expect(Math.max(...counts) - Math.min(...counts), counts.join()).to.be.at.most(1);
            const settled = new Map(holders);
            round(holders, live, shards, order);
            expect(holders, 'nothing moves any more').to.deep.equal(settled);
          }
        },
      ),
    );
  });

  it('leaves alone what a relay has that may be dying: its lease has not run out', () => {
    const holders = new Map([
      [1, 'gone'],
      [2, 'a'],
    ]);
    expect(fairShare({ shards: 2, me: 'a', live: ['a'], holders })).to.deep.equal({ take: [], giveBack: [] });
  });

  it('of one that joins is given back by those who have too much', () => {
    const holders = new Map([1, 2, 3, 4].map((number) => [number, 'a'] as const));
    const live = ['a', 'b'];
    expect(fairShare({ shards: 4, me: 'a', live, holders })).to.deep.equal({ take: [], giveBack: [3, 4] });
    expect(fairShare({ shards: 4, me: 'b', live, holders })).to.deep.equal({ take: [], giveBack: [] });
  });
});
