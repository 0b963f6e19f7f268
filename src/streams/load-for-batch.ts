import type { BatchRun } from './batch-run.ts';
import type { ComputeOptions, PlaceInput } from './compute-batch.ts';
import { TooManyRows } from './joins/global-rows.ts';
import { bucketOf, type LaneMemory } from './lane-memory.ts';
import { isUndecodable } from './record.ts';

/** The store did not answer: no record is to blame. */
export class TroubleLoading extends Error {
  override readonly name = 'TroubleLoading';
}

export const loading = async <T>(work: Promise<T>): Promise<T> => {
  try {
    return await work;
  } catch (cause) {
    throw new TroubleLoading('The state store did not answer', { cause });
  }
};

/** Ids that were handled in the stretches of time that a batch needs. */
export const loadHandled = async (
  { store, projection }: ComputeOptions,
  memory: LaneMemory,
  inputs: readonly PlaceInput[],
): Promise<void> => {
  const wanted = inputs.flatMap(({ owned, records }) => {
    const buckets = new Set<number>();
    for (const record of records) if (!isUndecodable(record)) buckets.add(bucketOf(record.timeMs));
    return [...buckets]
      .filter((bucketStartMs) => !memory.handled.touch(owned.name, bucketStartMs))
      .map((bucketStartMs) => ({ ...owned.place, place: owned.name, bucketStartMs }));
  });
  if (wanted.length === 0) return;
  await loading(memory.handled.load(wanted, () => store.loadHandled(projection, wanted)));
};

/** What has changed of global tables since somebody looked. */
export const refreshGlobalRows = (
  { store, projection, clock }: ComputeOptions,
  memory: LaneMemory,
): Promise<void> =>
  memory.globalRows
    .refresh((request) => loading(store.loadChanged(projection, request)), clock())
    .catch((error: unknown) => {
      if (error instanceof TooManyRows) throw new TroubleLoading(error.message, { cause: error });
      throw error;
    });

/** States that steps have asked for in vain. */
export const loadMissing = async (
  { store, projection }: ComputeOptions,
  memory: LaneMemory,
  { missing }: BatchRun,
): Promise<void> => {
  const requests = [...missing].map(([state, keys]) => ({ state, keys: [...keys] }));
  const found = await loading(store.loadStates(projection, requests));
  for (const [index, { state, keys }] of requests.entries()) {
    for (const key of keys) memory.keep(state.name, key, { value: found[index]?.get(key) });
  }
};
