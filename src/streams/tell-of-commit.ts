import type { Logger } from 'pino';
import { begunAnewBy } from './begun-anew.ts';
import type { ComputedBatch } from './compute-batch.ts';
import { lookAtValues } from './look-at-values.ts';
import type { ProjectionId, StreamsObserver } from './ports.ts';

/** Tells the log, the functions given to peek, and the observer what a batch has done. */
export const tellOfCommit = (
  computed: ComputedBatch,
  {
    projection,
    observer,
    log,
    knownFacts,
    startedMs,
    nowMs,
  }: {
    readonly projection: ProjectionId;
    readonly observer: StreamsObserver;
    readonly log: Logger;
    readonly knownFacts: number;
    readonly startedMs: number;
    readonly nowMs: number;
  },
): void => {
  const { run, letters, newestMs } = computed;
  for (const { place, record, kind, error } of letters)
    log.warn({ ...place, offset: record.offset, kind, err: error }, 'A record was sent to the dead letters');
  lookAtValues(run.looks, log);
  for (const anew of begunAnewBy(computed)) observer.begunAnew(projection, anew);
  observer.applied({
    projection,
    places: computed.inputs.map(({ owned, records }) => ({ ...owned.place, records: records.length })),
    duplicates: computed.duplicates,
    knownFacts: knownFacts + run.repeatedFacts,
    late: sumOf(run.lateByPlace),
    early: sumOf(run.earlyByPlace),
    delayMs: newestMs === undefined ? undefined : Math.max(0, nowMs - newestMs),
    commitMs: nowMs - startedMs,
  });
};

const sumOf = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((sum, count) => sum + count, 0);
