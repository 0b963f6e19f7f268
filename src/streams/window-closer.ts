import { aside } from './aside.ts';
import { type ComputeOptions, loading } from './compute-batch.ts';
import { idAt } from './derived-id.ts';
import {
  type DueHandler,
  type FinalResult,
  nextOf,
  type Origin,
  type Step,
  type StepContext,
  type TopologyNode,
} from './graph.ts';
import type { LaneMemory } from './lane-memory.ts';
import { atTime } from './piped-records.ts';
import type { StateDefinition } from './tables.ts';
import type { TaskAttempt } from './task-attempt.ts';
import { nodesOfTopology } from './topology.ts';

/** States whose windows are closed in one batch at most; what is left is closed with the next one. */
export const closedMax = 500;
/** A window whose result cannot be handed on has no record to set aside: it is kept and tried again after this time. */
const retryAfterMs = 60_000;

/** Which windows a batch closes, where it is not simply all whose time has come. */
export interface Closing {
  /** States whose windows are closed, the earliest first; 0 leaves all of them for later. */
  readonly statesMax: number;
  /** Why the windows that are to be closed are kept instead, and tried again later. */
  readonly refused?: Error;
}

interface ClosingStep {
  readonly state: StateDefinition;
  readonly onDue: DueHandler;
  readonly next: Step;
}

interface Due {
  readonly step: ClosingStep;
  readonly key: string;
  readonly dueAtMs: number;
  /** As the store has it. */
  readonly value: unknown;
}

export type CloseWindows = (attempt: TaskAttempt, memory: LaneMemory) => Promise<void>;

/** Hands on the windows of a task whose time has come, by its stream or, when that is quiet, by the wall clock. */
export const createWindowCloser = (
  { topology, store, projection, onWindowFailure }: ComputeOptions,
  compiled: Map<TopologyNode, Step>,
): CloseWindows => {
  const steps = new Map<string, ClosingStep>(
    nodesOfTopology(topology).flatMap((node) =>
      node.onDue && node.state
        ? [[node.state.name, { state: node.state, onDue: node.onDue, next: nextOf(node, compiled) }]]
        : [],
    ),
  );
  if (steps.size === 0) return async () => {};

  /** In the order of their times, each state once: as the store has them, or as what is not committed yet has made them. */
  const findDue = async (
    { task: { partition } }: TaskAttempt,
    { at, memory, untilMs }: { at: StepContext; memory: LaneMemory; untilMs: number },
  ): Promise<readonly Due[]> => {
    const stored = await loading(store.findDue(projection, { partition, untilMs, statesMax: closedMax }));
    const inFlight = [...memory.inFlight.map(({ run }) => run), at.run]
      .flatMap((run) => run.states)
      .flatMap(({ place, state, key, value, dueAtMs }) =>
        dueAtMs !== undefined && dueAtMs <= untilMs && place.partition === partition
          ? [{ state: state.name, key, value, dueAtMs }]
          : [],
      );
    const found = new Map<string, Due>();
    for (const { state, key, value, dueAtMs } of [...stored, ...inFlight]) {
      const step = steps.get(state);
      if (step && currentValue(at, { step, key, value }) !== undefined)
        found.set(`${state} ${key}`, { step, key, dueAtMs, value });
    }
    return [...found.values()].sort((a, b) => a.dueAtMs - b.dueAtMs);
  };

  const closeOne = async (
    attempt: TaskAttempt,
    at: StepContext,
    due: Due,
    untilMs: number,
  ): Promise<void> => {
    const { step, key } = due;
    const value = currentValue(at, due);
    let reachedMs = attempt.time.streamTimeMs;
    // A window that the wall clock has closed must not be opened again by a late record.
    const pass = (timeMs: number): void => {
      reachedMs = Math.max(reachedMs, timeMs);
    };
    const of = `${projection.name} ${step.state.name} ${key}`;
    const handOn = (result: FinalResult): void => {
      const { timeMs } = result;
      // Only what is final ends something.
      if (result.streamTimeMs === undefined) pass(timeMs);
      at.origin = result.origin ?? originAt(of, result);
      // What follows takes it for as late as it is, however far the records of its batch have come since.
      const streamTimeMs = result.streamTimeMs ?? Math.max(attempt.before.streamTimeMs, timeMs);
      atTime(at, { placeTimeMs: timeMs, streamTimeMs }, () => step.next(key, result.value, at));
    };
    const { done: left, run } = await aside(at, () =>
      step.onDue.close({ key, value, untilMs, handOn, pass }),
    );
    at.run.absorb(run);
    // What it misses is loaded with what the whole batch misses.
    for (const [state, keys] of run.missing) for (const missed of keys) at.run.read(state, missed);
    at.run.write({ place: at.place, state: step.state, key, value: undefined, ...left });
    attempt.time.streamTimeMs = reachedMs;
  };

  return async (attempt, memory) => {
    const [first] = attempt.places;
    if (!first) return;
    const { at, input } = first;
    const { statesMax, refused }: Closing = input.closing ?? { statesMax: Number.POSITIVE_INFINITY };
    const untilMs = Math.max(attempt.time.streamTimeMs, input.wallClockMs ?? Number.NEGATIVE_INFINITY);
    if (statesMax === 0 || untilMs === Number.NEGATIVE_INFINITY) return;
    for (const due of (await findDue(attempt, { at, memory, untilMs })).slice(0, statesMax)) {
      attempt.closed++;
      try {
        if (refused) throw refused;
        await closeOne(attempt, at, due, untilMs);
      } catch (error) {
        const { step, key } = due;
        const value = currentValue(at, due);
        onWindowFailure(error as Error, { state: step.state.name, key });
        const postponed = step.onDue.postpone({ value, untilMs, toMs: untilMs + retryAfterMs });
        at.run.write({ place: at.place, state: step.state, key, ...postponed });
      }
    }
  };
};

/** Most early results end in a filter or a row, where nobody asks for their ids: these are made when somebody does. */
const originAt = (of: string, result: FinalResult): Origin => {
  let id: string | undefined;
  return {
    timeMs: result.timeMs,
    get id() {
      id ??= idAt(result.timeMs, `${of} ${result.name}`);
      return id;
    },
  };
};

/** What another window of the same batch has put into it counts. */
const currentValue = (at: StepContext, { step, key, value }: Omit<Due, 'dueAtMs'>): unknown =>
  (at.run.find(step.state.name, key) ?? { value }).value;
