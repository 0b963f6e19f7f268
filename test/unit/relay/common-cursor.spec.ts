import { expect } from 'chai';
import fc from 'fast-check';
import { commonCursor, intersectSnapshots } from '../../../src/relay/common-cursor.ts';
import type { OutboxCursor } from '../../../src/relay/outbox-cursor.ts';

const lastTransaction = 12;
const transactions = Array.from({ length: lastTransaction }, (_, index) => index + 1);

/** As pg_visible_in_snapshot has it. */
const isVisible = (transaction: number, snapshot: string): boolean => {
  const [xmin = '', xmax = '', xip = ''] = snapshot.split(':');
  if (transaction < Number(xmin)) return true;
  if (transaction >= Number(xmax)) return false;
  return !xip.split(',').includes(String(transaction));
};

const snapshots = fc
  .record({ xmax: fc.integer({ min: 1, max: lastTransaction }), open: fc.subarray(transactions) })
  .map(({ xmax, open }) => {
    const xip = open.filter((id) => id < xmax);
    return `${xip[0] ?? xmax}:${xmax}:${xip.join()}`;
  });

interface Row {
  readonly transaction: number;
  readonly id: number;
}
const rows: readonly Row[] = transactions.flatMap((transaction) =>
  [1, 2, 3].map((id) => ({ transaction, id })),
);
const hasPassed = ({ from, to, lastId }: OutboxCursor, { transaction, id }: Row): boolean =>
  isVisible(transaction, from) || (isVisible(transaction, to) && id <= lastId);

const cursors = fc.oneof(
  snapshots.map((from) => ({ from, to: from, lastId: 0 })),
  fc.record({ from: snapshots, to: snapshots, lastId: fc.integer({ min: 0, max: 3 }) }),
);

describe('the snapshot that several have in common', () => {
  it('shows exactly what all of them show', () => {
    fc.assert(
      fc.property(fc.array(snapshots, { minLength: 1, maxLength: 4 }), (given) => {
        const common = intersectSnapshots(given);
        for (const transaction of transactions) {
          expect(isVisible(transaction, common), `${transaction} in ${common}`).to.equal(
            given.every((snapshot) => isVisible(transaction, snapshot)),
          );
        }
      }),
    );
  });

  it('is written as PostgreSQL reads it: running ones ascend and lie between the two bounds', () => {
    expect(intersectSnapshots(['10:20:10,15', '12:18:12,15'])).to.equal('10:18:10,12,15');
    expect(intersectSnapshots(['10:20:19', '18:18:'])).to.equal('18:18:');
    expect(intersectSnapshots(['9007199254740993:9007199254740995:9007199254740993'])).to.equal(
      '9007199254740993:9007199254740995:9007199254740993',
    );
  });
});

describe('the position that several cursors have in common', () => {
  it('has passed nothing that one of them has not', () => {
    fc.assert(
      fc.property(fc.array(cursors, { minLength: 1, maxLength: 4 }), (given) => {
        const common = commonCursor(given);
        const skipped = rows.filter(
          (row) => hasPassed(common, row) && !given.every((cursor) => hasPassed(cursor, row)),
        );
        expect(skipped, JSON.stringify(common)).to.deep.equal([]);
      }),
      { numRuns: 1000 },
    );
  });

  it('of one cursor is that cursor, so that nothing is repeated', () => {
    const inDelta = { from: '10:20:10,15', to: '21:30:21,25', lastId: 7 };
    expect(commonCursor([inDelta])).to.deep.equal(inDelta);
    const between = { from: '10:20:10,15', to: '10:20:10,15', lastId: 0 };
    expect(commonCursor([between])).to.deep.equal(between);
  });

  it('is far along in a delta that all of them are in', () => {
    const delta = { from: '10:10:', to: '20:20:' };
    expect(
      commonCursor([
        { ...delta, lastId: 500 },
        { ...delta, lastId: 400 },
        { from: '20:20:', to: '20:20:', lastId: 0 },
      ]),
    ).to.deep.equal({ ...delta, lastId: 400 });
  });
});
