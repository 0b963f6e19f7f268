import type { MissedIds } from './batch-run.ts';
import type { ComputedBatch } from './compute-batch.ts';
import { parkedChanges } from './place-tail.ts';
import type { BatchCommit, HandledIds, ProjectionId } from './ports.ts';

/** What the store is asked to do for a computed batch. */
export const commitOf = (
  projection: ProjectionId,
  { inputs, run, handled, reopened, tails, tasks }: ComputedBatch,
): BatchCommit => ({
  projection,
  tasks: [...tasks].map(([{ partition }, { before, after }]) => ({
    partition,
    expectedCommits: before.commits,
    streamTimeMs: after.streamTimeMs,
  })),
  moves: [...tails].map(([owned, { before, after }]) => ({
    ...owned.place,
    expectedOffset: before.offset,
    nextOffset: after.offset ?? 0,
    streamTimeMs: after.streamTimeMs,
    log: after.log,
    logBreak: inputs.find((input) => input.owned === owned)?.logBreak,
    lateRecords: run.lateByPlace.get(owned.name) ?? 0,
    earlyRecords: run.earlyByPlace.get(owned.name) ?? 0,
  })),
  handled: idsIn(handled.entries()),
  reopened: idsIn(reopened.entries()),
  missed: idsIn(run.missed),
  facts: run.facts,
  deltas: run.deltas,
  states: run.states,
  parked: [...tails].flatMap(([{ place }, { before, after }]) => parkedChanges(place, before, after)),
  derived: run.derived,
});

const idsIn = (entries: Iterable<MissedIds>): readonly HandledIds[] =>
  [...entries].map(({ place, bucketStartMs, ids }) => ({ ...place, bucketStartMs, ids: [...ids] }));
