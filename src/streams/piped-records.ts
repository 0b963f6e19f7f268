import { from, lastValueFrom, toArray } from 'rxjs';
import type { RecordOperator, Step, StepContext, StreamRecord } from './graph.ts';

/** RxJS operators between two steps. */
export interface Pipe {
  readonly name: string;
  readonly operators: readonly RecordOperator[];
}

/** How things stood when a record went into the operators. */
interface Entry {
  readonly key: string | null;
  readonly placeTimeMs: number;
  readonly streamTimeMs: number;
}

interface Waiting {
  readonly pipe: Pipe;
  readonly next: Step;
  readonly records: StreamRecord<unknown>[];
  readonly entries: Map<string, Entry>;
}

/** Records of one place that wait until its batch is through, and then go through the operators of a step together. */
export class PipedRecords {
  readonly #waiting = new Map<Pipe, Waiting>();

  add(pipe: Pipe, next: Step, record: StreamRecord<unknown>, at: StepContext): void {
    let waiting = this.#waiting.get(pipe);
    if (!waiting) {
      waiting = { pipe, next, records: [], entries: new Map() };
      this.#waiting.set(pipe, waiting);
    }
    waiting.records.push(record);
    const { placeTimeMs, task } = at;
    waiting.entries.set(record.id, { key: record.key, placeTimeMs, streamTimeMs: task.streamTimeMs });
  }

  /** Takes over what waits in another. */
  absorb(other: PipedRecords): void {
    for (const waiting of other.take()) {
      const own = this.#waiting.get(waiting.pipe);
      if (!own) this.#waiting.set(waiting.pipe, waiting);
      else {
        own.records.push(...waiting.records);
        for (const [id, entry] of waiting.entries) own.entries.set(id, entry);
      }
    }
  }

  /** Each only once. */
  take(): readonly Waiting[] {
    const taken = [...this.#waiting.values()];
    this.#waiting.clear();
    return taken;
  }
}

/** Runs what waits through its operators, and what comes out through the steps behind them. */
export const flushPipes = async (at: StepContext): Promise<void> => {
  for (let waiting = at.piped.take(); waiting.length > 0; waiting = at.piped.take()) {
    for (const { pipe, records, entries, next } of waiting) {
      const piped = pipe.operators.reduce((stream, operator) => operator(stream), from(records));
      const out = await lastValueFrom(piped.pipe(toArray()), { defaultValue: [] });
      for (const record of out) handOn(pipe, record, entries, { next, at });
    }
  }
};

/** A record is as late behind the operators as it was before them: what else the batch brought makes no difference. */
const handOn = (
  pipe: Pipe,
  record: StreamRecord<unknown>,
  entries: ReadonlyMap<string, Entry>,
  { next, at }: { readonly next: Step; readonly at: StepContext },
): void => {
  const entry = entries.get(record.id);
  requireSameKey(pipe, record, entry, entries);
  at.origin = record;
  atTime(at, entry ?? { placeTimeMs: at.placeTimeMs, ...at.task }, () => next(record.key, record.value, at));
};

/** What follows sees these times; those that were reached come back. */
export const atTime = (
  at: StepContext,
  times: { readonly placeTimeMs: number; readonly streamTimeMs: number },
  work: () => void,
): void => {
  const { placeTimeMs, task } = at;
  const { streamTimeMs } = task;
  at.placeTimeMs = times.placeTimeMs;
  task.streamTimeMs = times.streamTimeMs;
  try {
    work();
  } finally {
    at.placeTimeMs = placeTimeMs;
    task.streamTimeMs = streamTimeMs;
  }
};

/** A record with an id of the operators' own may have any key that came in: those live in this partition. */
const requireSameKey = (
  { name }: Pipe,
  { key }: StreamRecord<unknown>,
  entry: Entry | undefined,
  entries: ReadonlyMap<string, Entry>,
): void => {
  const isSame = entry ? entry.key === key : [...entries.values()].some((other) => other.key === key);
  if (isSame) return;
  const before = entry ? ` from ${entry.key}` : '';
  throw new Error(
    `The operators of ${name} changed the key of a record${before} to ${key}: states are kept where their key has its ` +
      'partition. Leave the key as it is, and use groupBy(key, { through }) behind the operators to go on by another one',
  );
};
