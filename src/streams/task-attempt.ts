import type { BatchRun } from './batch-run.ts';
import type { AnyRecord, PlaceInput } from './compute-batch.ts';
import { originOf, type SourceTime, turnTimeOf } from './event-time.ts';
import type { StepContext } from './graph.ts';
import { PipedRecords } from './piped-records.ts';
import type { OwnedTask, Tail, TaskTail } from './place-tail.ts';
import type { ParkedKey } from './ports.ts';
import type { DecodedRecord } from './record.ts';

/** One place's way through a batch. */
export class PlaceAttempt {
  readonly input: PlaceInput;
  readonly time: SourceTime;
  readonly at: StepContext;
  readonly before: Tail;
  parked: ReadonlyMap<string, ParkedKey>;
  newestMs = Number.NEGATIVE_INFINITY;

  constructor(input: PlaceInput, task: StepContext['task'], options: AttemptOptions) {
    const { run, timeOf, nowMs, onTimerFailure } = options;
    this.input = input;
    this.time = timeOf(input.owned.place.topic);
    this.before = input.owned.tail;
    this.parked = this.before.parked;
    this.at = {
      run,
      place: input.owned.place,
      origin: { id: '', timeMs: 0 },
      placeTimeMs: this.before.streamTimeMs,
      task,
      nowMs,
      derivedFrom: new Map(),
      piped: new PipedRecords(),
      keepsHeld: false,
      handsOnHeld: false,
      postponesTimers: input.closing?.postponesTimers ?? false,
      onTimerFailure,
    };
  }

  moveTo(record: DecodedRecord): void {
    const { at } = this;
    const origin = originOf(this.time, record);
    const { timeMs } = origin;
    at.origin = origin;
    if (origin.isEarly) {
      at.run.noteEarly(at.place);
      return;
    }
    if (timeMs > this.newestMs) this.newestMs = timeMs;
    if (this.time.isGlobal) return;
    if (timeMs > at.placeTimeMs) at.placeTimeMs = timeMs;
    if (timeMs > at.task.streamTimeMs) at.task.streamTimeMs = timeMs;
  }

  park(key: string, change: (parked: ParkedKey | undefined) => ParkedKey | undefined): void {
    const parked = new Map(this.parked);
    const changed = change(parked.get(key));
    if (changed) parked.set(key, changed);
    else parked.delete(key);
    this.parked = parked;
  }
}

/** Consecutive records of one place. */
export interface Turn {
  readonly attempt: PlaceAttempt;
  readonly records: readonly AnyRecord[];
}

/** One task's way through a batch: that of its places, which share their time. */
export class TaskAttempt {
  readonly task: OwnedTask;
  readonly before: TaskTail;
  readonly time: { streamTimeMs: number };
  readonly places: readonly PlaceAttempt[];
  /** States that were due and have been seen to. */
  closed = 0;

  constructor(task: OwnedTask, inputs: readonly PlaceInput[], options: AttemptOptions) {
    this.task = task;
    this.before = task.tail;
    this.time = { streamTimeMs: this.before.streamTimeMs };
    this.places = inputs.map((input) => new PlaceAttempt(input, this.time, options));
  }

  get after(): TaskTail {
    return { commits: (this.before.commits ?? 0) + 1, streamTimeMs: this.time.streamTimeMs };
  }

  /** What others look up, whatever task they are of: it comes before all of that. */
  *globalTurns(): Generator<Turn> {
    for (const attempt of this.places)
      if (attempt.time.isGlobal) yield { attempt, records: attempt.input.records };
  }

  /** Place by place; or, where places share states, whichever has the earliest record first, as far as it is at hand. */
  *turns(inTimeOrder: boolean): Generator<Turn> {
    const places = this.places.filter(({ time }) => !time.isGlobal);
    if (!inTimeOrder || places.length === 1) {
      for (const attempt of places) yield { attempt, records: attempt.input.records };
      return;
    }
    const left = places.map((attempt) => ({ attempt, index: 0 }));
    for (;;) {
      const heads = left.map(({ attempt, index }) => turnOf(attempt, index));
      const earliestMs = Math.min(...heads);
      if (earliestMs === Number.POSITIVE_INFINITY) return;
      const chosen = heads.indexOf(earliestMs);
      const untilMs = Math.min(...heads.filter((_, index) => index !== chosen));
      const place = left[chosen];
      if (!place) return;
      const { records } = place.attempt.input;
      const from = place.index;
      while (place.index < records.length && turnOf(place.attempt, place.index) <= untilMs) place.index++;
      yield { attempt: place.attempt, records: records.slice(from, place.index) };
    }
  }
}

/** What is not there comes last. */
const turnOf = ({ input, time }: PlaceAttempt, index: number): number => {
  const record = input.records[index];
  return record ? turnTimeOf(time, record) : Number.POSITIVE_INFINITY;
};

export interface AttemptOptions {
  readonly run: BatchRun;
  readonly nowMs: number;
  /** How the records of a topic tell their time. */
  readonly timeOf: (topic: string) => SourceTime;
  readonly onTimerFailure: StepContext['onTimerFailure'];
}

export const attemptTasks = (
  inputs: readonly PlaceInput[],
  options: AttemptOptions,
): readonly TaskAttempt[] =>
  [...Map.groupBy(inputs, ({ owned }) => owned.task)].map(
    ([task, own]) => new TaskAttempt(task, own, options),
  );
