import { BatchRun } from './batch-run.ts';
import type { StepContext } from './graph.ts';
import { flushPipes, PipedRecords } from './piped-records.ts';

/** Works in a run of its own, so that half of what comes of a record or a window is never left behind when the rest fails. */
export const aside = async <T>(
  at: StepContext,
  work: () => T,
): Promise<{ readonly done: T; readonly run: BatchRun }> => {
  const { run: whole, derivedFrom, piped } = at;
  const run = new BatchRun(whole);
  at.run = run;
  at.derivedFrom = new Map();
  at.piped = new PipedRecords();
  try {
    const done = work();
    await flushPipes(at);
    return { done, run };
  } finally {
    at.run = whole;
    at.derivedFrom = derivedFrom;
    at.piped = piped;
  }
};
