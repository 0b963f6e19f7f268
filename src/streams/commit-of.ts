import type { ComputedBatch } from './compute-batch.ts';
import { parkedChanges } from './place-tail.ts';
import type { BatchCommit, Move, ProjectionId } from './ports.ts';

/** What the store is asked to do for a computed batch. */
export const commitOf = (
  projection: ProjectionId,
  { run, handled, tails }: ComputedBatch,
  /** Checkpoints that stay where they are, and have to be there. */
  checked: readonly Move[],
): BatchCommit => ({
  projection,
  moves: [
    ...[...tails].map(([{ place, name }, { before, after }]) => ({
      ...place,
      expectedOffset: before.offset,
      nextOffset: after.offset ?? 0,
      streamTimeMs: after.streamTimeMs,
      lateRecords: run.lateByPlace.get(name) ?? 0,
    })),
    ...checked,
  ],
  handled: [...handled.entries()].map(({ place, bucketStartMs, ids }) => ({
    ...place,
    bucketStartMs,
    ids: [...ids],
  })),
  facts: run.facts,
  deltas: run.deltas,
  states: run.states,
  parked: [...tails].flatMap(([{ place }, { before, after }]) => parkedChanges(place, before, after)),
  derived: run.derived,
});
