import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { StoreUnderTest } from '../state-store-contract.ts';
import { at, batch, fenced, move, newProjection } from './batches.ts';

const bucketMs = 10_000;
const today = Math.floor(Date.now() / bucketMs) * bucketMs;

const sorted = (lists: readonly (readonly string[])[]): readonly (readonly string[])[] =>
  lists.map((ids) => [...ids].sort());

export const describeHandled = (underTest: () => StoreUnderTest): void => {
  describe('handled ids', () => {
    it('are found by place and time, in the order asked, from all batches', async () => {
      const { store, other } = underTest();
      const projection = newProjection();
      const [a, b, c, d] = [uuidv7(), uuidv7(), uuidv7(), randomUUID()];
      await store.commit(
        batch(projection, {
          moves: [move(at(0), undefined, 3), move(at(1), undefined, 1)],
          handled: [
            { ...at(0), bucketStartMs: today, ids: [a, b] },
            { ...at(1), bucketStartMs: today, ids: [c] },
          ],
        }),
      );
      await store.commit(
        batch(projection, {
          moves: [move(at(0), 3, 4)],
          handled: [{ ...at(0), bucketStartMs: today, ids: [d] }],
        }),
      );
      const requests = [
        { ...at(1), bucketStartMs: today },
        { ...at(0), bucketStartMs: today + bucketMs },
        { ...at(0), bucketStartMs: today },
        { ...at(2), bucketStartMs: today },
        { ...at(0), bucketStartMs: today },
      ];
      const expected = [[c], [], [a, b, d].sort(), [], [a, b, d].sort()];
      for (const asked of [store, other]) {
        expect(sorted(await asked.loadHandled(projection, requests))).to.deep.equal(expected);
      }
      expect(await store.loadHandled(projection, [])).to.deep.equal([]);
    });

    it('are not handled any more when a batch opens them again, and can be handled once more', async () => {
      const { store, other } = underTest();
      const projection = newProjection();
      const [a, b, c, d] = [uuidv7(), uuidv7(), uuidv7(), uuidv7()];
      const here = { ...at(0), bucketStartMs: today };
      const found = async () =>
        sorted(await other.loadHandled(projection, [here, { ...here, partition: 1 }]));
      await store.commit(
        batch(projection, {
          moves: [move(at(0), undefined, 3), move(at(1), undefined, 1)],
          handled: [
            { ...here, ids: [a, b, c] },
            { ...here, ...at(1), ids: [b] },
          ],
        }),
      );
      await store.commit(
        batch(projection, {
          moves: [move(at(0), 3, 4)],
          handled: [{ ...here, ids: [d] }],
          reopened: [{ ...here, ids: [b, a] }],
        }),
      );
      expect(await found()).to.deep.equal([[c, d].sort(), [b]]);
      await store.commit(batch(projection, { moves: [move(at(0), 4, 5)], handled: [{ ...here, ids: [b] }] }));
      expect(await found()).to.deep.equal([[b, c, d].sort(), [b]]);
      await store.commit(
        batch(projection, { moves: [move(at(0), 5, 6)], reopened: [{ ...here, ids: [b, c, d] }] }),
      );
      expect(await found()).to.deep.equal([[], [b]]);
    });

    it('are found at any time that an event can have', async () => {
      const { store } = underTest();
      const projection = newProjection();
      const times = [
        -62_135_596_800_000,
        -bucketMs,
        0,
        today - 4000 * 86_400_000,
        today - 40 * 86_400_000,
        today,
        today + 86_400_000,
        4_102_444_800_000,
        253_402_300_790_000,
      ];
      const handled = times.map((bucketStartMs) => ({ ...at(0), bucketStartMs, ids: [uuidv7()] }));
      await store.commit(batch(projection, { moves: [move(at(0), undefined, 1)], handled }));
      expect(await store.loadHandled(projection, handled)).to.deep.equal(handled.map(({ ids }) => ids));
    });

    it('belong to one version of a projection', async () => {
      const { store } = underTest();
      const projection = newProjection();
      await store.commit(
        batch(projection, {
          moves: [move(at(0), undefined, 1)],
          handled: [{ ...at(0), bucketStartMs: today, ids: [uuidv7()] }],
        }),
      );
      const request = [{ ...at(0), bucketStartMs: today }];
      expect(await store.loadHandled({ ...projection, version: 2 }, request)).to.deep.equal([[]]);
      expect(await store.loadHandled(newProjection(), request)).to.deep.equal([[]]);
    });

    it('may be many', async () => {
      const { store } = underTest();
      const projection = newProjection();
      const ids = Array.from({ length: 20_000 }, () => uuidv7()).sort();
      await store.commit(
        batch(projection, {
          moves: [move(at(0), undefined, 1)],
          handled: [
            { ...at(0), bucketStartMs: today, ids: ids.slice(0, 15_000) },
            { ...at(0), bucketStartMs: today + bucketMs, ids: ids.slice(15_000) },
          ],
        }),
      );
      const loaded = await store.loadHandled(projection, [
        { ...at(0), bucketStartMs: today },
        { ...at(0), bucketStartMs: today + bucketMs },
      ]);
      expect(loaded.map(({ length }) => length)).to.deep.equal([15_000, 5000]);
      expect(loaded.flat().sort().join()).to.equal(ids.join());
    });

    it('of a batch that came too late are not kept', async () => {
      const { store } = underTest();
      const projection = newProjection();
      await store.commit(batch(projection, { moves: [move(at(0), undefined, 1)] }));
      const outcome = await store.commit(
        batch(projection, {
          moves: [move(at(0), undefined, 2)],
          handled: [{ ...at(0), bucketStartMs: today, ids: [uuidv7()] }],
        }),
      );
      expect(outcome).to.deep.equal(fenced);
      expect(await store.loadHandled(projection, [{ ...at(0), bucketStartMs: today }])).to.deep.equal([[]]);
    });
  });
};
