import { expect } from 'chai';
import fc from 'fast-check';
import { readPosition, writePosition } from '../../../src/live/position.ts';

const snapshots = fc
  .record({
    xmin: fc.bigInt({ min: 1n, max: 10n ** 12n }),
    gaps: fc.array(fc.bigInt({ min: 1n, max: 50n }), { maxLength: 200 }),
  })
  .map(({ xmin, gaps }) => {
    const open = gaps.map((_, index) => gaps.slice(0, index).reduce((sum, gap) => sum + gap, xmin));
    const xmax = gaps.reduce((sum, gap) => sum + gap, xmin);
    return `${xmin}:${xmax}:${open.join(',')}`;
  });

describe('a position in what is told live', () => {
  it('comes back as it was written, or as an earlier one where it would be too long for a header', () => {
    fc.assert(
      fc.property(snapshots, (snapshot) => {
        const text = writePosition({ system: '7501234567890123456', snapshot });
        expect(text).to.match(/^[\x21-\x7e]{1,1500}$/);
        const [xmin] = snapshot.split(':');
        const read = readPosition(text);
        expect(read?.system).to.equal('7501234567890123456');
        expect(read?.snapshot).to.be.oneOf([snapshot, `${xmin}:${xmin}:`]);
        if (snapshot.length < 1400) expect(read?.snapshot).to.equal(snapshot);
      }),
    );
  });

  it('that nobody wrote is none', () => {
    for (const text of [
      '',
      '1',
      'x-1:1:',
      '1-1:1',
      '1-0:1:',
      '1-2:1:',
      '1-1:3:3',
      '1-2:3:1',
      '1-1:9:3,2',
      '1-1:9:2,2',
      '1-1:9:2,',
      '1-1:9: 2',
      `1-1:${'9'.repeat(30)}:`,
      `1-1:2000000:${Array.from({ length: 1000 }, (_, index) => index + 1).join(',')}`,
    ]) {
      expect(readPosition(text), text.slice(0, 40)).to.equal(undefined);
    }
    fc.assert(
      fc.property(fc.string(), (text) => {
        readPosition(text);
      }),
    );
  });
});
