import { expect } from 'chai';
import type { ProjectionId, StateChange, StateStore } from '../../../src/streams/ports.ts';
import type { StoreUnderTest } from '../state-store-contract.ts';
import { at, batch, newProjection } from './batches.ts';

const state = { name: 'global', rowsMax: 100 };

/** Keeps up with a state as a process does that has a copy of it. */
export const copyOf = (store: StateStore, projection: ProjectionId, rowsMax = 100) => {
  const copy = new Map<string, unknown>();
  let since: string | undefined;
  return {
    follow: async (): Promise<Record<string, unknown>> => {
      const { rows, upTo } = await store.loadChanged(projection, { state, since, rowsMax });
      for (const { key, value } of rows) {
        if (value === undefined) copy.delete(key);
        else copy.set(key, value);
      }
      since = upTo;
      return Object.fromEntries([...copy].sort());
    },
  };
};

export const copied = (key: string, value: unknown, partition = 0): StateChange => ({
  place: at(partition),
  state,
  key,
  value,
});

/** States that every process has a copy of. */
export const describeCopies = (underTest: () => StoreUnderTest): void => {
  describe('states with copies', () => {
    it('are told whole, and then as they change: of all partitions, and gone where they are', async () => {
      const { store, other } = underTest();
      const projection = newProjection();
      const commit = (...states: readonly StateChange[]) => store.commit(batch(projection, { states }));
      const copies = [copyOf(store, projection), copyOf(other, projection)];
      const follow = () => Promise.all(copies.map((copy) => copy.follow()));
      expect(await follow()).to.deep.equal([{}, {}]);
      await commit(
        copied('a', { latest: 1 }),
        copied('b', { latest: 'Größe' }, 7),
        copied('c', { latest: 3 }),
      );
      const first = { a: { latest: 1 }, b: { latest: 'Größe' }, c: { latest: 3 } };
      expect(await follow()).to.deep.equal([first, first]);
      await commit(copied('b', undefined, 7), copied('c', { latest: 4 }), copied('never', undefined));
      const second = { a: { latest: 1 }, c: { latest: 4 } };
      expect(await follow()).to.deep.equal([second, second]);
      await commit(copied('b', { latest: 5 }, 7));
      const third = { ...second, b: { latest: 5 } };
      expect(await follow()).to.deep.equal([third, third]);
      expect(await copyOf(other, projection).follow()).to.deep.equal(third);
    });

    it('are not there for anybody once they are gone, by key or as a whole', async () => {
      const { store } = underTest();
      const projection = newProjection();
      await store.commit(
        batch(projection, { states: [copied('a', { latest: 1 }), copied('b', { latest: 1 })] }),
      );
      await store.commit(batch(projection, { states: [copied('a', undefined)] }));
      const [found] = await store.loadStates(projection, [{ state, keys: ['a', 'b'] }]);
      expect(Object.fromEntries(found ?? [])).to.deep.equal({ b: { latest: 1 } });
      const { rows } = await store.loadChanged(projection, { state, since: undefined, rowsMax: 10 });
      expect(rows).to.deep.equal([{ key: 'b', value: { latest: 1 } }]);
    });

    it('are those of one projection, version and name, and no more than were asked for', async () => {
      const { store } = underTest();
      const projection = newProjection();
      const states = ['a', 'b', 'c'].map((key) => copied(key, { latest: key }));
      await store.commit(
        batch(projection, {
          states: [...states, { ...copied('z', {}), state: { name: 'else', rowsMax: 9 } }],
        }),
      );
      const load = async (of: ProjectionId, rowsMax: number) =>
        (await store.loadChanged(of, { state, since: undefined, rowsMax })).rows.length;
      expect(await load(projection, 10)).to.equal(3);
      expect(await load(projection, 2)).to.equal(2);
      expect(await load({ ...projection, version: 2 }, 10)).to.equal(0);
    });
  });
};
