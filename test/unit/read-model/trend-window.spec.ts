import { expect } from 'chai';
import fc from 'fast-check';
import { trendWindows } from '../../../src/projections/product-trend.ts';
import { fullestWindowAt } from '../../../src/read-model/top-trends.ts';

describe('the window that trends are told of', () => {
  it('holds the time it is asked at, and no window that began earlier does', () => {
    fc.assert(
      fc.property(fc.date({ min: new Date(0), max: new Date(4e12), noInvalidDate: true }), (at) => {
        const { from, to } = fullestWindowAt(at);
        expect(to.getTime() - from.getTime()).to.equal(trendWindows.sizeMs);
        expect(from.getTime() % trendWindows.advanceMs).to.equal(0);
        expect(at >= from && at < to).to.equal(true);
        expect(at.getTime()).to.be.at.least(to.getTime() - trendWindows.advanceMs);
      }),
    );
  });
});
