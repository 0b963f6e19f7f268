import type { ComputedBatch } from './compute-batch.ts';
import type { ProjectionId, StateStore } from './ports.ts';

/**
 * Whether somebody else has committed for a task since the batch's process last did. What it has loaded may then be half of
 * before and half of after, and a record may have failed for no other reason: it is not to blame. Asked only where records
 * are to be blamed; the fence of the commit stays what decides.
 */
export const hasBeenOvertaken = async (
  store: StateStore,
  projection: ProjectionId,
  { tails, tasks }: Pick<ComputedBatch, 'tails' | 'tasks'>,
): Promise<boolean> => {
  const owned = [...tails.keys()];
  const stored = await store.loadPlaces(
    projection,
    owned.map(({ place }) => place),
  );
  return owned.some(({ task }, index) => {
    const expected = tasks.get(task)?.before.commits;
    return stored[index]?.task?.commits !== expected;
  });
};
