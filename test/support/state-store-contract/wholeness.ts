import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import {
  type BatchCommit,
  type DerivedEvent,
  type ProjectionId,
  ProjectionPaused,
  RefusedData,
} from '../../../src/streams/ports.ts';
import type { StoreUnderTest } from '../state-store-contract.ts';
import {
  adding,
  at,
  batch,
  committed,
  fenced,
  move,
  newProjection,
  paidAdding,
  task,
  unique,
} from './batches.ts';

const bucketStartMs = 1_700_000_000_000;
const state = { name: 'windows' };

const derivedEvent = (key: string): DerivedEvent => ({
  id: uuidv7(),
  destination: 'repartitioned',
  key,
  value: { of: key },
  timeMs: bucketStartMs,
  causationId: uuidv7(),
});

/** A batch that does something of everything. */
const wholeBatch = (projection: ProjectionId, key: string, rest: Partial<BatchCommit> = {}): BatchCommit =>
  batch(projection, {
    tasks: [task(0, undefined)],
    moves: [move(at(0), undefined, 1)],
    handled: [{ ...at(0), bucketStartMs, ids: [uuidv7()] }],
    facts: [paidAdding(key, key, 0, 2)],
    deltas: [adding(key, 1, 0)],
    states: [{ place: at(0), state, key, value: { open: true }, dueAtMs: bucketStartMs }],
    parked: [
      {
        ...at(0),
        key,
        expectedRecords: undefined,
        parked: { sinceOffset: 0, records: 1, reason: 'spec', brokenReplay: null },
      },
    ],
    ...rest,
  });

export const describeWholeness = (underTest: () => StoreUnderTest): void => {
  const expectNothingOf = async (projection: ProjectionId, key: string): Promise<void> => {
    const { store, countsOf } = underTest();
    expect(await store.loadPlaces(projection, [at(0)])).to.deep.equal([
      { checkpoint: undefined, task: undefined, parked: [] },
    ]);
    expect(await store.loadHandled(projection, [{ ...at(0), bucketStartMs }])).to.deep.equal([[]]);
    expect(await store.loadStates(projection, [{ state, keys: [key] }])).to.deep.equal([new Map()]);
    expect(await countsOf(key)).to.equal(undefined);
    // Its fact is still to be told: the same batch counts it.
    expect(await store.commit(wholeBatch(projection, key))).to.deep.equal(committed);
    expect(await countsOf(key)).to.deep.equal([1, 2]);
  };

  describe('a batch', () => {
    it('hands over what it derives, in its order', async () => {
      const { store, derived } = underTest();
      const events = [derivedEvent('b'), derivedEvent('a')];
      const before = derived.length;
      await store.commit(batch(newProjection(), { moves: [move(at(0), undefined, 1)], derived: events }));
      expect(derived.slice(before)).to.deep.equal(events);
    });

    it('derives nothing when it is too late', async () => {
      const { store, derived } = underTest();
      const before = derived.length;
      const late = batch(newProjection(), { moves: [move(at(0), 4, 5)], derived: [derivedEvent('a')] });
      expect(await store.commit(late)).to.deep.equal(fenced);
      expect(derived.length).to.equal(before);
    });

    it('leaves nothing behind when the data is refused, and says so', async () => {
      const { store, refused } = underTest();
      const projection = newProjection();
      const key = unique('refused');
      const batchWithRefused = wholeBatch(projection, key, { deltas: [adding(key, 1, 0), refused] });
      const error = await store.commit(batchWithRefused).catch((thrown: unknown) => thrown);
      expect(error).to.be.instanceOf(RefusedData);
      await expectNothingOf(projection, key);
    });

    it('of a projection that is paused leaves nothing behind, and others are committed', async () => {
      const { store, other, setPaused } = underTest();
      const projection = newProjection();
      const key = unique('paused');
      await setPaused(projection.name, true);
      for (const seen of [store, other]) {
        const refused = await seen.commit(wholeBatch(projection, key)).catch((thrown: unknown) => thrown);
        expect(refused).to.be.instanceOf(ProjectionPaused);
      }
      const running = batch(newProjection(), { moves: [move(at(0), undefined, 1)] });
      expect(await store.commit(running)).to.deep.equal(committed);
      await setPaused(projection.name, false);
      await expectNothingOf(projection, key);
    });

    it('leaves nothing behind when it fails at its end, and hands the error on', async () => {
      const { store, failNextDerived } = underTest();
      const projection = newProjection();
      const key = unique('failed');
      const trouble = new Error('The server is shutting down');
      failNextDerived(trouble);
      const failing = store.commit(wholeBatch(projection, key, { derived: [derivedEvent(key)] }));
      expect(await failing.catch((thrown: unknown) => thrown)).to.equal(trouble);
      await expectNothingOf(projection, key);
    });
  });
};
