import { expect } from 'chai';
import { lostBehind } from '../../../src/rebuild/live-lack.ts';

describe('what a live build has lost', () => {
  const at = (partition: number) => ({ topic: 'orders', partition });

  it('are the records between a checkpoint and where the topic begins', () => {
    const positions = [
      { ...at(0), offset: 5 },
      { ...at(1), offset: 9 },
      { ...at(2), offset: 9 },
      { topic: 'not read any more', partition: 0, offset: 0 },
    ];
    const ranges = [
      { ...at(0), start: 9 },
      { ...at(1), start: 9 },
      { ...at(2), start: 0 },
      { ...at(3), start: 9 },
    ];
    expect(lostBehind(positions, ranges)).to.deep.equal([{ ...at(0), checkpoint: 5, firstOffset: 9 }]);
  });
});
