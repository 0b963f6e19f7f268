import { expect } from 'chai';
import type { DeadLetter } from '../../../src/dlq-admin/dead-letter.ts';
import { createRefusals } from '../../../src/dlq-admin/refusal.ts';
import { deadLetter } from '../http/good-dead-letters.ts';

const letterAt = (offset: number, key = 'k'): DeadLetter => ({
  ...deadLetter,
  key,
  place: { ...deadLetter.place, offset },
});

describe('refusals', () => {
  it('put the letters of a parked key together, and others by their reason', () => {
    const refusals = createRefusals();
    for (const letter of [letterAt(1, 'a'), letterAt(2, 'b'), letterAt(3, 'a')])
      refusals.note('parked', letter.place, letter);
    for (const letter of [letterAt(4, 'c'), letterAt(5, 'd')])
      refusals.note('too-often', letter.place, letter);
    expect(refusals.all().map(({ reason, key, letters }) => [reason, key, letters])).to.deep.equal([
      ['parked', 'a', 2],
      ['parked', 'b', 1],
      ['too-often', 'c', 2],
    ]);
  });

  it('stay few, however many letters and keys there are', () => {
    const refusals = createRefusals();
    for (let i = 0; i < 5000; i++) {
      const letter = letterAt(i, `key-${i % 1000}`);
      refusals.note('parked', letter.place, letter);
    }
    const all = refusals.all();
    expect(all.length).to.be.at.most(101);
    expect(all.reduce((sum, { letters }) => sum + letters, 0)).to.equal(5000);
    for (const { examples } of all) expect(examples.length).to.be.at.most(5);
  });
});
