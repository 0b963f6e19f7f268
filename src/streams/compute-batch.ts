import { aside } from './aside.ts';
import { BatchRun } from './batch-run.ts';
import { type SourceTime, sourceTime } from './event-time.ts';
import { backoffOf } from './failure-policy.ts';
import { compileNode, type Step } from './graph.ts';
import { bucketOf, HandledByBatch, type LaneMemory } from './lane-memory.ts';
import { loadHandled, loadMissing, refreshGlobalRows, TroubleLoading } from './load-for-batch.ts';
import { parkedName, storableText } from './parked-name.ts';
import { flushPipes } from './piped-records.ts';
import type { OwnedPlace, OwnedTask, Tail, TaskTail } from './place-tail.ts';
import {
  type DeadLetter,
  type LetterKind,
  type ParkedKey,
  type ProjectionId,
  RefusedData,
  type StateStore,
} from './ports.ts';
import {
  type DecodedRecord,
  isUndecodable,
  type LogBreak,
  type LogIdentity,
  type UndecodableRecord,
} from './record.ts';
import { RetryBudget } from './retry-budget.ts';
import { attemptTasks, type PlaceAttempt, type TaskAttempt, type Turn } from './task-attempt.ts';
import { nodesOfTopology, type Topology } from './topology.ts';
import { type Closing, createWindowCloser, type GiveUp } from './window-closer.ts';

export type AnyRecord = DecodedRecord | UndecodableRecord;

/** Consecutive records of an owned place, from where its tail stands. */
export interface PlaceInput {
  readonly owned: OwnedPlace;
  /** Inputs of an earlier epoch are dropped: they are read again. */
  readonly epoch: number;
  /** Where the tail stood when the input was accepted; a tail before that means that something in between is missing. */
  readonly fromOffset: number | undefined;
  readonly records: readonly AnyRecord[];
  readonly nextOffset: number;
  /** The log that `nextOffset` belongs to; undefined where it is that of the tail. */
  readonly log?: LogIdentity | undefined;
  /** Why the place begins anew at `nextOffset`, where it does. */
  readonly logBreak?: LogBreak | undefined;
  /** Windows that are due by this time are closed although no record says that time has come: the stream is quiet. */
  readonly wallClockMs?: number;
  /** Which windows of its task are closed, where it is not all whose time has come. */
  readonly closing?: Closing;
}

/** A batch worked out and folded, not committed yet. */
export interface ComputedBatch {
  readonly inputs: readonly PlaceInput[];
  readonly run: BatchRun;
  readonly handled: HandledByBatch;
  /** Ids of records that an earlier batch has handled by holding them, and that have become dead letters now. */
  readonly reopened: HandledByBatch;
  readonly letters: readonly DeadLetter[];
  readonly tails: ReadonlyMap<OwnedPlace, { readonly before: Tail; readonly after: Tail }>;
  readonly tasks: ReadonlyMap<OwnedTask, { readonly before: TaskTail; readonly after: TaskTail }>;
  /** States that were due and have been seen to. */
  readonly closed: number;
  readonly duplicates: number;
  /** The time of the newest event that was new; undefined when there was none. */
  readonly newestMs: number | undefined;
}

/** Records that the database has refused: they go to the dead letters without another try. */
export type Condemned = ReadonlyMap<AnyRecord, Error>;

export interface ComputeOptions {
  readonly topology: Topology;
  readonly projection: ProjectionId;
  readonly store: StateStore;
  readonly onWindowFailure: (error: Error, window: { readonly state: string; readonly key: string }) => void;
  readonly clock: () => number;
  /** Between two tries of what fails. */
  readonly pause: (timeMs: number) => Promise<void>;
  readonly stopping: AbortSignal;
}

export type Compute = (
  memory: LaneMemory,
  inputs: readonly PlaceInput[],
  condemned?: Condemned,
) => Promise<ComputedBatch>;

/**
 * Works out what a batch does. Most run in one go; when a record fails, or order matters behind one that did, the batch is
 * taken again record by record, and all that fail are tried again together. Nothing outside is touched, so it can be done
 * again at any time.
 */
export const createCompute = (options: ComputeOptions): Compute => {
  const { topology } = options;
  const compiled = new Map();
  const steps = new Map<string, Step>(
    topology.sources.map(({ topic, node }) => [topic, compileNode(node, compiled)]),
  );
  const closer = createWindowCloser(options, compiled);
  // What one topic brings may meet what another has brought: then the earlier comes first.
  const inTimeOrder = topology.sources.length > 1 && nodesOfTopology(topology).some(({ state }) => state);
  const budget = new RetryBudget(topology.onFailure.retries);

  const complete = async (batch: Batch, task: TaskAttempt, memory: LaneMemory): Promise<void> => {
    for (const { at } of task.places) await flushPipes(at);
    await closer.close(task, { memory, giveUp: batch.giveUp });
  };

  const inOneGo = async (memory: LaneMemory, inputs: readonly PlaceInput[]): Promise<Batch> => {
    const batch = new Batch(inputs, memory, options);
    const take = ({ attempt, records }: Turn): void => {
      const step = steps.get(attempt.input.owned.place.topic);
      for (const record of records) {
        if (isUndecodable(record)) batch.condemn(attempt, record, 'undecodable', record.error);
        else if (batch.isNew(attempt, record)) {
          attempt.moveTo(record);
          step?.(record.key, record.value, attempt.at);
        }
      }
    };
    for (const task of batch.attempts) {
      batch.run.time = task.time;
      for (const turn of task.globalTurns()) take(turn);
    }
    for (const task of batch.attempts) {
      batch.run.time = task.time;
      for (const turn of task.turns(inTimeOrder)) take(turn);
      await complete(batch, task, memory);
    }
    return batch;
  };

  const oneByOne = async (
    memory: LaneMemory,
    inputs: readonly PlaceInput[],
    condemned: Condemned,
  ): Promise<Batch> => {
    const batch = new Batch(inputs, memory, options);
    const take = async (task: TaskAttempt, { attempt, records }: Turn): Promise<void> => {
      const step = steps.get(attempt.input.owned.place.topic);
      for (const record of records) {
        const verdict = batch.verdictBefore(attempt, record, condemned);
        if (verdict === 'pass') continue;
        const failed =
          verdict ?? (await tryRecord(batch, { task, attempt, memory, step }, record as DecodedRecord));
        if (failed) batch.condemn(attempt, record, failed.kind, failed.error);
        else batch.succeeded(attempt, record as DecodedRecord);
      }
    };
    for (const task of batch.attempts) {
      batch.run.time = task.time;
      for (const turn of task.globalTurns()) await take(task, turn);
    }
    for (const task of batch.attempts) {
      batch.run.time = task.time;
      for (const turn of task.turns(inTimeOrder)) await take(task, turn);
      await complete(batch, task, memory);
    }
    return batch;
  };

  /** In a run of its own, which becomes part of the batch only when the record has come through whole. */
  const tryRecord = async (
    batch: Batch,
    { task, attempt, memory, step }: Trying,
    record: DecodedRecord,
  ): Promise<{ kind: LetterKind; error: Error } | undefined> => {
    const { at } = attempt;
    at.keepsHeld = attempt.input.closing?.keepsHeld ?? false;
    for (;;) {
      at.handsOnHeld = false;
      try {
        const { run } = await aside(at, () => {
          attempt.moveTo(record);
          step?.(record.key, record.value, at);
        });
        if (run.missing.size > 0) {
          await loadMissing(options, memory, run);
          continue;
        }
        at.run.absorb(run);
        if (at.keepsHeld && !attempt.input.closing?.keepsHeld)
          await closer.handOnHeld(task, { at, changed: run.states, giveUp: batch.giveUp });
        at.keepsHeld = false;
        return undefined;
      } catch (error) {
        if (error instanceof TroubleLoading) throw error;
        if (!at.handsOnHeld) {
          at.keepsHeld = false;
          return { kind: 'failed', error: asError(error) };
        }
        // It may be none of its fault: it goes alone, and then what has waited for it.
        at.keepsHeld = true;
      }
    }
  };

  return async (memory, inputs, condemned = new Map()) => {
    memory.trim();
    await refreshGlobalRows(options, memory);
    await loadHandled(options, memory, inputs);
    const isPlain = condemned.size === 0 && !needsCare(topology, inputs);
    for (let retries = 0; ; ) {
      const batch =
        isPlain && retries === 0
          ? await inOneGo(memory, inputs).catch((error: unknown) => {
              if (error instanceof TroubleLoading) throw error;
              return oneByOne(memory, inputs, condemned);
            })
          : await oneByOne(memory, inputs, condemned);
      if (batch.run.missing.size > 0) {
        await loadMissing(options, memory, batch.run);
        continue;
      }
      const { failed } = batch;
      if (failed === 0 || !budget.mayRetry(retries)) {
        budget.note({ failed, retries });
        return batch;
      }
      await options.pause(backoffOf(topology.onFailure, retries++));
      // Nobody waited: what fails may only be given up when it had its time.
      options.stopping.throwIfAborted();
    }
  };
};

/** Where a record stands in its batch. */
interface Trying {
  readonly task: TaskAttempt;
  readonly attempt: PlaceAttempt;
  readonly memory: LaneMemory;
  readonly step: Step | undefined;
}

/** Where order matters behind a failed record, it has to be known which record failed, and which keys wait. */
const needsCare = ({ onFailure }: Topology, inputs: readonly PlaceInput[]): boolean =>
  inputs.some(({ owned, closing }) => owned.tail.parked.size > 0 || closing?.keepsHeld) ||
  (onFailure.afterRetries === 'park-key' && inputs.some(({ records }) => records.some(isUndecodable)));

class Batch implements ComputedBatch {
  readonly inputs: readonly PlaceInput[];
  readonly run: BatchRun;
  readonly handled = new HandledByBatch();
  readonly reopened = new HandledByBatch();
  readonly letters: DeadLetter[] = [];
  readonly attempts: readonly TaskAttempt[];
  readonly #memory: LaneMemory;
  readonly #options: ComputeOptions;
  #stretch: Stretch | undefined;
  duplicates = 0;

  constructor(inputs: readonly PlaceInput[], memory: LaneMemory, options: ComputeOptions) {
    this.inputs = inputs;
    this.run = new BatchRun(memory);
    const { topology, clock, onWindowFailure } = options;
    this.attempts = attemptTasks(inputs, {
      run: this.run,
      nowMs: clock(),
      timeOf: timesOf(topology),
      onTimerFailure: onWindowFailure,
    });
    this.#memory = memory;
    this.#options = options;
  }

  get #places(): readonly PlaceAttempt[] {
    return this.attempts.flatMap(({ places }) => places);
  }

  get tails(): ComputedBatch['tails'] {
    return new Map(
      this.#places.map(({ input, at, before, parked }) => [
        input.owned,
        {
          before,
          after: {
            offset: input.nextOffset,
            log: input.log ?? before.log,
            streamTimeMs: at.placeTimeMs,
            parked,
          },
        },
      ]),
    );
  }

  get tasks(): ComputedBatch['tasks'] {
    return new Map(this.attempts.map(({ task, before, after }) => [task, { before, after }]));
  }

  get closed(): number {
    return this.attempts.reduce((sum, { closed }) => sum + closed, 0);
  }

  /** Records that a step failed on. */
  get failed(): number {
    return this.letters.filter(({ kind }) => kind === 'failed').length;
  }

  get newestMs(): number | undefined {
    const newestMs = Math.max(...this.#places.map((attempt) => attempt.newestMs));
    return Number.isFinite(newestMs) ? newestMs : undefined;
  }

  /** Whether the record has to be looked at; if so it counts as handled from now on. */
  isNew(attempt: PlaceAttempt, record: DecodedRecord): boolean {
    if (this.#isForAnother(record)) return false;
    if (this.#isHandled(attempt, record)) {
      this.duplicates++;
      return false;
    }
    this.#stretchOf(attempt, record).own.add(record.id);
    return true;
  }

  /** `pass` for what needs nothing; a failure for what must not even be tried; undefined for what is to be tried. */
  verdictBefore(
    attempt: PlaceAttempt,
    record: AnyRecord,
    condemned: Condemned,
  ): 'pass' | { kind: LetterKind; error: Error } | undefined {
    if (this.#isForAnother(record)) return 'pass';
    if (isUndecodable(record)) return { kind: 'undecodable', error: record.error };
    if (this.#isHandled(attempt, record)) {
      this.duplicates++;
      return 'pass';
    }
    const refused = condemned.get(record);
    if (refused) return { kind: 'refused', error: refused };
    const parked = record.key === null ? undefined : attempt.parked.get(parkedName(record.key));
    if (!parked || this.#isNextOf(parked, record)) return undefined;
    return {
      kind: 'parked',
      error: new Error(`Waits behind offset ${parked.sinceOffset} of its key: ${parked.reason}`),
    };
  }

  succeeded(attempt: PlaceAttempt, record: DecodedRecord): void {
    this.#stretchOf(attempt, record).own.add(record.id);
    if (!record.raw.replay || record.key === null) return;
    attempt.park(parkedName(record.key), (parked) =>
      parked && parked.records > 1 ? { ...parked, records: parked.records - 1 } : undefined,
    );
  }

  condemn(attempt: PlaceAttempt, record: AnyRecord, kind: LetterKind, error: Error): void {
    this.letters.push({ place: attempt.input.owned.place, record: record.raw, kind, error });
    const key = 'key' in record ? record.key : (record.raw.key?.toString('utf8') ?? null);
    if (this.#options.topology.onFailure.afterRetries !== 'park-key' || key === null) return;
    const { replay, offset } = record.raw;
    const name = parkedName(key);
    attempt.park(name, (parked) => ({
      key: name,
      sinceOffset: parked?.sinceOffset ?? offset,
      reason: parked?.reason ?? storableText(error.message),
      // What was replayed has been counted when it came the first time.
      records: (parked?.records ?? 0) + (replay && parked ? 0 : 1),
      brokenReplay: replay ? replay.id : (parked?.brokenReplay ?? null),
    }));
  }

  /**
   * A record that was held has been handled, and is not any more: replayed, it comes once again. It does not park its key,
   * because what follows is held behind it all the same.
   */
  readonly giveUp: GiveUp = ({ place, raw, origin: { id, timeMs, recordedMs } }, error) => {
    const kind = error instanceof RefusedData ? 'refused' : 'failed';
    this.letters.push({ place, record: raw, kind, error });
    const bucketStartMs = bucketOf(recordedMs ?? timeMs);
    this.handled.open(place, bucketStartMs).delete(id);
    this.reopened.open(place, bucketStartMs).add(id);
  };

  #isForAnother({ raw }: AnyRecord): boolean {
    return raw.replay !== undefined && raw.replay.projection !== this.#options.projection.name;
  }

  /** A replay brings a key's records back in order, unless one of them has failed again. */
  #isNextOf(parked: ParkedKey, { raw }: DecodedRecord): boolean {
    return raw.replay !== undefined && raw.replay.id !== parked.brokenReplay;
  }

  #isHandled(attempt: PlaceAttempt, record: DecodedRecord): boolean {
    const { before, own } = this.#stretchOf(attempt, record);
    return own.has(record.id) || before.some((ids) => ids.has(record.id));
  }

  /** Records of one time come together: the stretch of the last one is mostly that of the next. */
  #stretchOf({ input }: PlaceAttempt, { timeMs }: DecodedRecord): Stretch {
    const { name, place } = input.owned;
    const bucketStartMs = bucketOf(timeMs);
    const last = this.#stretch;
    if (last?.name === name && last.bucketStartMs === bucketStartMs) return last;
    const before = this.#memory.handledIn(name, bucketStartMs);
    if (!before)
      throw new TroubleLoading(`The handled ids of ${name} from ${bucketStartMs} on are not at hand`);
    this.#stretch = { name, bucketStartMs, before, own: this.handled.open(place, bucketStartMs) };
    return this.#stretch;
  }
}

const timesOf = ({ sources }: Topology) => {
  const byTopic = new Map(sources.map(({ topic, time }) => [topic, time]));
  return (topic: string): SourceTime => byTopic.get(topic) ?? sourceTime(topic);
};

/** What is known to be handled in a place and a stretch of time: before this batch, and by it. */
interface Stretch {
  readonly name: string;
  readonly bucketStartMs: number;
  readonly before: readonly ReadonlySet<string>[];
  readonly own: Set<string>;
}

export const asError = (thrown: unknown): Error =>
  thrown instanceof Error ? thrown : new Error(String(thrown));
