import type { BatchCommit, PlaceState, StateStore } from '../../src/streams/ports.ts';
import type { MemoryStateStore } from '../../src/streams/testing/memory-state-store.ts';

/** A guard of the store that is switched off. */
export interface StoreFaults {
  readonly withoutDedup?: boolean;
  readonly withoutFence?: boolean;
  readonly withoutTaskFence?: boolean;
  /** Whoever comes does not know which log a checkpoint belongs to. */
  readonly withoutLogIdentity?: boolean;
}

class Crash extends Error {}

export const isCrash = (error: unknown): boolean =>
  error instanceof Crash || (error instanceof Error && error.cause instanceof Crash);

/** As a store would do it that does not look where things stand. */
const unfenced = async (
  store: MemoryStateStore,
  batch: BatchCommit,
  faults: StoreFaults,
): Promise<BatchCommit> => {
  const stored = await store.loadPlaces(batch.projection, batch.moves);
  const taskOf = (partition: number) =>
    stored[batch.moves.findIndex((move) => move.partition === partition)]?.task;
  return {
    ...batch,
    tasks: batch.tasks.map((task) => ({ ...task, expectedCommits: taskOf(task.partition)?.commits })),
    moves: faults.withoutFence
      ? batch.moves.map((move, index) => ({ ...move, expectedOffset: stored[index]?.checkpoint?.nextOffset }))
      : batch.moves,
  };
};

const withoutLog = ({ checkpoint, ...state }: PlaceState): PlaceState => {
  const { log: _, ...rest } = checkpoint ?? {};
  return { ...state, checkpoint: checkpoint && (rest as Omit<typeof checkpoint, 'log'>) };
};

/** Fails between any two calls, before or after what was called, and kills the process half of the time. */
export const crashing = (
  store: MemoryStateStore,
  {
    random,
    faults,
    kill,
    changed = (batch) => batch,
  }: {
    readonly random: () => number;
    readonly faults: StoreFaults;
    readonly kill: () => void;
    readonly changed?: (batch: BatchCommit) => BatchCommit;
  },
): StateStore => {
  const crash = (when: string): never => {
    if (random() < 0.5) kill();
    throw new Crash(when);
  };
  const perhaps = async <T>(work: () => Promise<T>): Promise<T> => {
    if (random() < 0.04) crash('before');
    const result = await work();
    if (random() < 0.04) crash('after');
    return result;
  };
  return {
    loadPlaces: (...given) =>
      perhaps(async () => {
        const states = await store.loadPlaces(...given);
        return faults.withoutLogIdentity ? states.map(withoutLog) : states;
      }),
    loadHandled: (...given) =>
      perhaps(async () => (faults.withoutDedup ? given[1].map(() => []) : store.loadHandled(...given))),
    loadStates: (...given) => perhaps(() => store.loadStates(...given)),
    loadChanged: (...given) => perhaps(() => store.loadChanged(...given)),
    findDue: (...given) => perhaps(() => store.findDue(...given)),
    commit: (batch) =>
      perhaps(async () => {
        const isUnfenced = faults.withoutFence || faults.withoutTaskFence;
        return store.commit(isUnfenced ? await unfenced(store, changed(batch), faults) : changed(batch));
      }),
  };
};
