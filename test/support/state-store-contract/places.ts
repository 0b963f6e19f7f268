import { randomBytes, randomUUID } from 'node:crypto';
import { expect } from 'chai';
import {
  type ParkedChange,
  type ParkedKey,
  type ProjectionId,
  RefusedData,
} from '../../../src/streams/ports.ts';
import type { Place } from '../../../src/streams/record.ts';
import type { StoreUnderTest } from '../state-store-contract.ts';
import {
  adding,
  at,
  batch,
  committed,
  fenced,
  move,
  newProjection,
  offsetsOf,
  task,
  unique,
} from './batches.ts';

export const describeCheckpoints = (underTest: () => StoreUnderTest): void => {
  describe('checkpoints', () => {
    it('tell of places in the order asked, and of nothing where the projection has never been', async () => {
      const { store, other } = underTest();
      const projection = newProjection();
      await store.commit(
        batch(projection, { moves: [move(at(0), undefined, 5, { streamTimeMs: 1_700_000_000_123 })] }),
      );
      expect(await other.loadPlaces(projection, [at(1), at(0), at(0, 'likes')])).to.deep.equal([
        { checkpoint: undefined, task: undefined, parked: [] },
        { checkpoint: { nextOffset: 5, streamTimeMs: 1_700_000_000_123 }, task: undefined, parked: [] },
        { checkpoint: undefined, task: undefined, parked: [] },
      ]);
      expect(await store.loadPlaces(projection, [])).to.deep.equal([]);
    });

    it('keep the time of a stream that has none yet', async () => {
      const { store } = underTest();
      const projection = newProjection();
      await store.commit(batch(projection, { moves: [move(at(0), undefined, 1)] }));
      const [state] = await store.loadPlaces(projection, [at(0)]);
      expect(state?.checkpoint).to.deep.equal({ nextOffset: 1, streamTimeMs: Number.NEGATIVE_INFINITY });
    });

    it('know which log they belong to, as far as anybody does', async () => {
      const { store, other } = underTest();
      const projection = newProjection();
      const logOf = async () => (await other.loadPlaces(projection, [at(0)]))[0]?.checkpoint?.log;
      const [topicId, anew] = [randomUUID(), randomUUID()];
      await store.commit(batch(projection, { moves: [move(at(0), undefined, 1)] }));
      expect(await logOf()).to.equal(undefined);
      for (const [from, log] of [
        { topicId, leaderEpoch: undefined },
        { topicId, leaderEpoch: 7 },
      ].entries()) {
        await store.commit(batch(projection, { moves: [move(at(0), from + 1, from + 2, { log })] }));
        expect(await logOf()).to.deep.equal(log);
      }
      const log = { topicId: anew, leaderEpoch: 0 };
      await store.commit(batch(projection, { moves: [move(at(0), 3, 3, { log })] }));
      expect(await logOf()).to.deep.equal(log);
      await store.commit(batch(projection, { moves: [move(at(1), undefined, 3, { log })] }));
      expect((await other.loadPlaces(projection, [at(1)]))[0]?.checkpoint?.log).to.deep.equal(log);
    });

    it('go back where a place begins anew, for whoever expects them where they are, and that is kept', async () => {
      const { store, other, readLogBreaks } = underTest();
      const projection = newProjection();
      const log = { topicId: randomUUID(), leaderEpoch: 3 };
      await store.commit(
        batch(projection, {
          tasks: [task(0, undefined)],
          moves: [move(at(0), undefined, 50, { streamTimeMs: 7000 })],
        }),
      );
      const back = (commits: number) =>
        batch(projection, {
          tasks: [task(0, commits)],
          moves: [move(at(0), 50, 12, { streamTimeMs: 7000, log, logBreak: 'truncated' })],
        });
      expect(await other.commit(back(5)), 'by who knows of other commits').to.deep.equal(fenced);
      expect(await readLogBreaks(projection)).to.deep.equal([]);
      expect(await store.commit(back(1))).to.deep.equal(committed);
      expect(await other.loadPlaces(projection, [at(0)])).to.deep.equal([
        {
          checkpoint: { nextOffset: 12, streamTimeMs: 7000, log },
          task: { commits: 2, streamTimeMs: Number.NEGATIVE_INFINITY },
          parked: [],
        },
      ]);
      expect(await readLogBreaks(projection)).to.deep.equal([
        { ...at(0), kind: 'truncated', offsetBefore: 50, nextOffset: 12, streamTimeMs: 7000 },
      ]);
    });

    it('move together, new ones and old ones', async () => {
      const { store } = underTest();
      const projection = newProjection();
      await store.commit(batch(projection, { moves: [move(at(0), undefined, 5)] }));
      const outcome = await store.commit(
        batch(projection, { moves: [move(at(0), 5, 9), move(at(1), undefined, 3)] }),
      );
      expect(outcome).to.deep.equal(committed);
      expect(await offsetsOf(store, projection, [at(0), at(1)])).to.deep.equal([9, 3]);
    });

    it('add up the records that came late', async () => {
      const { store, readLateRecords } = underTest();
      const projection = newProjection();
      await store.commit(batch(projection, { moves: [move(at(0), undefined, 1, { lateRecords: 2 })] }));
      await store.commit(batch(projection, { moves: [move(at(0), 1, 2, { lateRecords: 3 })] }));
      expect(await readLateRecords(projection, at(0))).to.equal(5);
    });

    it('are checked where they stay', async () => {
      const { store } = underTest();
      const projection = newProjection();
      await store.commit(batch(projection, { moves: [move(at(0), undefined, 5)] }));
      expect(await store.commit(batch(projection, { moves: [move(at(0), 5, 5)] }))).to.deep.equal(committed);
      expect(await store.commit(batch(projection, { moves: [move(at(0), 4, 4)] }))).to.deep.equal(fenced);
      expect(await offsetsOf(store, projection, [at(0)])).to.deep.equal([5]);
    });

    it('belong to one version of a projection', async () => {
      const { store } = underTest();
      const first = newProjection();
      const second = { ...first, version: 2 };
      await store.commit(batch(first, { moves: [move(at(0), undefined, 5)] }));
      expect(await store.commit(batch(second, { moves: [move(at(0), undefined, 1)] }))).to.deep.equal(
        committed,
      );
      expect(await offsetsOf(store, first, [at(0)])).to.deep.equal([5]);
      expect(await offsetsOf(store, second, [at(0)])).to.deep.equal([1]);
    });

    describeFencing(underTest);
  });
};

const describeFencing = (underTest: () => StoreUnderTest): void => {
  const cases = [
    { title: 'has been moved by another', moves: [move(at(1), undefined, 2), move(at(0), 4, 6)] },
    { title: 'was made by another', moves: [move(at(1), undefined, 2), move(at(0), undefined, 6)] },
    { title: 'is no longer there', moves: [move(at(0), 5, 6), move(at(1), 1, 2)] },
  ];
  for (const { title, moves } of cases) {
    it(`change nothing for a batch of which one ${title}`, async () => {
      const { store, countsOf } = underTest();
      const projection = newProjection();
      const key = unique('late');
      await store.commit(batch(projection, { moves: [move(at(0), undefined, 5)] }));
      expect(await store.commit(batch(projection, { moves, deltas: [adding(key, 1, 0)] }))).to.deep.equal(
        fenced,
      );
      expect(await offsetsOf(store, projection, [at(0), at(1)])).to.deep.equal([5, undefined]);
      expect(await countsOf(key)).to.equal(undefined);
    });
  }

  for (const [title, from] of [
    ['first', undefined],
    ['next', 1],
  ] as const) {
    it(`let one of two holders through who both have the ${title} batch of some places`, async () => {
      const { store, other, countsOf } = underTest();
      const projection = newProjection();
      const key = unique('zombie');
      const places = Array.from({ length: 6 }, (_, partition) => at(partition));
      if (from !== undefined) {
        await store.commit(batch(projection, { moves: places.map((place) => move(place, undefined, from)) }));
      }
      const moves = places.map((place) => move(place, from, 2));
      const outcomes = await Promise.all([
        store.commit(batch(projection, { moves, deltas: [adding(key, 1, 0)] })),
        other.commit(batch(projection, { moves: moves.toReversed(), deltas: [adding(key, 1, 0)] })),
        other.commit(batch(projection, { moves: moves.slice(3), deltas: [adding(key, 1, 0)] })),
      ]);
      const winners = outcomes.filter(({ kind }) => kind === 'committed');
      expect(winners).to.have.length(1);
      expect(await countsOf(key)).to.deep.equal([1, 0]);
    });
  }
};

export const describeTasks = (underTest: () => StoreUnderTest): void => {
  describe('tasks', () => {
    const tasksOf = async (projection: ProjectionId, places: readonly Place[]) =>
      (await underTest().other.loadPlaces(projection, places)).map((state) => state.task);

    it('count their commits and keep their time, for all topics of a partition number', async () => {
      const { store } = underTest();
      const projection = newProjection();
      const times = [1_700_000_000_123, 1_700_000_000_456];
      await store.commit(
        batch(projection, { tasks: [task(0, undefined, times[0])], moves: [move(at(0), undefined, 1)] }),
      );
      const outcome = await store.commit(
        batch(projection, { tasks: [task(0, 1, times[1]), task(2, undefined)], moves: [move(at(0), 1, 2)] }),
      );
      expect(outcome).to.deep.equal(committed);
      expect(await tasksOf(projection, [at(0), at(0, 'likes'), at(1), at(2)])).to.deep.equal([
        { commits: 2, streamTimeMs: times[1] },
        { commits: 2, streamTimeMs: times[1] },
        undefined,
        { commits: 1, streamTimeMs: Number.NEGATIVE_INFINITY },
      ]);
      expect(await tasksOf({ ...projection, version: 2 }, [at(0)])).to.deep.equal([undefined]);
    });

    const cases = [
      { title: 'has had another commit', tasks: [task(1, undefined), task(0, 1)] },
      { title: 'has had its first commit', tasks: [task(1, undefined), task(0, undefined)] },
      { title: 'has had none', tasks: [task(0, 2), task(1, 1)] },
    ];
    for (const { title, tasks } of cases) {
      it(`change nothing for a batch of which one ${title}`, async () => {
        const { store, countsOf } = underTest();
        const projection = newProjection();
        const key = unique('late');
        await store.commit(batch(projection, { tasks: [task(0, undefined)] }));
        await store.commit(batch(projection, { tasks: [task(0, 1)] }));
        const late = batch(projection, {
          tasks,
          moves: [move(at(1), undefined, 2)],
          deltas: [adding(key, 1, 0)],
        });
        expect(await store.commit(late)).to.deep.equal(fenced);
        expect(await countsOf(key)).to.equal(undefined);
        expect(await offsetsOf(store, projection, [at(1)])).to.deep.equal([undefined]);
        const [first, second] = await tasksOf(projection, [at(0), at(1)]);
        expect([first?.commits, second]).to.deep.equal([2, undefined]);
      });
    }

    for (const [title, commits] of [
      ['first', undefined],
      ['next', 1],
    ] as const) {
      it(`let one of two holders through who both have the ${title} commit, whatever topics they read`, async () => {
        const { store, other, countsOf } = underTest();
        const projection = newProjection();
        const key = unique('zombie');
        const numbers = [0, 1, 2, 3];
        if (commits !== undefined)
          await store.commit(batch(projection, { tasks: numbers.map((number) => task(number, undefined)) }));
        const holding = (topic: string, partitions: readonly number[]) =>
          batch(projection, {
            tasks: partitions.map((number) => task(number, commits)),
            moves: partitions.map((number) => move(at(number, topic), undefined, 2)),
            deltas: [adding(key, 1, 0)],
          });
        const outcomes = await Promise.all([
          store.commit(holding('orders', numbers)),
          other.commit(holding('likes', numbers.toReversed())),
          other.commit({ ...holding('views', numbers.slice(2)), moves: [] }),
        ]);
        expect(outcomes.filter(({ kind }) => kind === 'committed')).to.have.length(1);
        expect(await countsOf(key)).to.deep.equal([1, 0]);
      });
    }
  });
};

export const describeParkedKeys = (underTest: () => StoreUnderTest): void => {
  describe('parked keys', () => {
    const parkedAt = (records: number, rest: Partial<ParkedKey> = {}): Omit<ParkedKey, 'key'> => ({
      sinceOffset: 7,
      records,
      reason: 'no such product',
      brokenReplay: null,
      ...rest,
    });
    const change = (
      place: Place,
      expectedRecords: number | undefined,
      parked: ParkedChange['parked'],
      key = 'order-1',
    ): ParkedChange => ({ ...place, key, expectedRecords, parked });

    /** A projection with one parked key at the first place, two records behind it. */
    const parkedOne = async () => {
      const { store } = underTest();
      const projection = newProjection();
      const outcome = await store.commit(
        batch(projection, {
          moves: [move(at(0), undefined, 1), move(at(1), undefined, 1)],
          parked: [change(at(0), undefined, parkedAt(2))],
        }),
      );
      expect(outcome).to.deep.equal(committed);
      const parkedNow = async () =>
        (await store.loadPlaces(projection, [at(0), at(1)])).map(({ parked }) => parked);
      return { store, projection, parkedNow };
    };

    it('are told with their place', async () => {
      const { parkedNow } = await parkedOne();
      expect(await parkedNow()).to.deep.equal([[{ key: 'order-1', ...parkedAt(2) }], []]);
    });

    it('get more records behind them, and a replay that broke', async () => {
      const { store, projection, parkedNow } = await parkedOne();
      const more = parkedAt(3, { brokenReplay: 'replay-1' });
      await store.commit(batch(projection, { moves: [move(at(0), 1, 2)], parked: [change(at(0), 2, more)] }));
      expect(await parkedNow()).to.deep.equal([[{ key: 'order-1', ...more }], []]);
    });

    const texts = [
      { title: 'a zero byte in the key', key: 'order\0', reason: '' },
      { title: 'a key that is too long for an index', key: randomBytes(5000).toString('hex'), reason: '' },
      { title: 'a zero byte in the reason', key: 'order', reason: 'no such \0' },
    ];
    for (const { title, key, reason } of texts) {
      it(`are refused with ${title}`, async () => {
        const { store, projection, parkedNow } = await parkedOne();
        const commit = store.commit(
          batch(projection, {
            moves: [move(at(0), 1, 2)],
            parked: [change(at(0), undefined, parkedAt(1, { reason }), key)],
          }),
        );
        expect(await commit.catch((error: unknown) => error)).to.be.instanceOf(RefusedData);
        expect(await parkedNow()).to.deep.equal([[{ key: 'order-1', ...parkedAt(2) }], []]);
      });
    }

    it('are released, parked and changed in one batch', async () => {
      const { store, projection, parkedNow } = await parkedOne();
      await store.commit(
        batch(projection, {
          moves: [move(at(0), 1, 2), move(at(1), 1, 2)],
          parked: [change(at(1), undefined, parkedAt(1), 'order-2')],
        }),
      );
      const outcome = await store.commit(
        batch(projection, {
          moves: [move(at(0), 2, 3), move(at(1), 2, 3)],
          parked: [
            change(at(1), 1, parkedAt(4), 'order-2'),
            change(at(0), undefined, parkedAt(1), 'order-3'),
            change(at(0), 2, undefined),
          ],
        }),
      );
      expect(outcome).to.deep.equal(committed);
      expect(await parkedNow()).to.deep.equal([
        [{ key: 'order-3', ...parkedAt(1) }],
        [{ key: 'order-2', ...parkedAt(4) }],
      ]);
    });

    const cases = [
      { title: 'has another number of records behind it', place: at(0), expected: 3, parked: parkedAt(4) },
      { title: 'was parked by another', place: at(0), expected: undefined, parked: parkedAt(1) },
      { title: 'was released by another', place: at(1), expected: 2, parked: parkedAt(3) },
      { title: 'is to be released and has more behind it', place: at(0), expected: 1, parked: undefined },
    ];
    for (const { title, place, expected, parked } of cases) {
      it(`change nothing when one of them ${title}`, async () => {
        const { store, projection, parkedNow } = await parkedOne();
        const outcome = await store.commit(
          batch(projection, {
            moves: [move(at(0), 1, 2)],
            parked: [change(at(0), undefined, parkedAt(1), 'order-9'), change(place, expected, parked)],
          }),
        );
        expect(outcome).to.deep.equal(fenced);
        expect(await parkedNow()).to.deep.equal([[{ key: 'order-1', ...parkedAt(2) }], []]);
        expect(await offsetsOf(store, projection, [at(0)])).to.deep.equal([1]);
      });
    }
  });
};
