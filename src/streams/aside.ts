import { BatchRun } from './batch-run.ts';
import type { StepContext } from './graph.ts';
import { flushPipes, PipedRecords } from './piped-records.ts';

/** Works in a run of its own, so that half of what comes of a record or a window is never left behind when the rest fails. */
export const aside = async <T>(
  at: StepContext,
  work: () => T,
): Promise<{ readonly done: T; readonly run: BatchRun }> => {
  const { run: whole, derivedFrom, piped } = at;
  const run = new BatchRun(whole, at.task);
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

/** As `aside`, for work that waits for nothing; what it has for RxJS operators waits for them with the rest of its batch. */
export const asideNow = <T>(at: StepContext, work: () => T): T => {
  const { run: whole, derivedFrom, piped, origin } = at;
  const run = new BatchRun(whole, at.task);
  at.run = run;
  at.derivedFrom = new Map();
  const inner = new PipedRecords();
  at.piped = inner;
  let done: T;
  try {
    done = work();
  } finally {
    at.run = whole;
    at.derivedFrom = derivedFrom;
    at.piped = piped;
    at.origin = origin;
  }
  whole.absorb(run);
  piped.absorb(inner);
  noteMissing(whole, run);
  return done;
};

/** What a run misses is loaded with what the whole batch misses. */
export const noteMissing = (whole: BatchRun, run: BatchRun): void => {
  for (const [state, keys] of run.missing) for (const missed of keys) whole.read(state, missed);
};
