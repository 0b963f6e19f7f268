import { aside, noteMissing } from './aside.ts';
import { asError, type ComputeOptions } from './compute-batch.ts';
import { dueSince } from './due-times.ts';
import {
  type Clocks,
  type DueHandler,
  type FinalResult,
  type GivenUp,
  nextOf,
  type Origin,
  type Step,
  type StepContext,
  type TopologyNode,
} from './graph.ts';
import type { LaneMemory } from './lane-memory.ts';
import { loading } from './load-for-batch.ts';
import { atTime } from './piped-records.ts';
import type { StateChange } from './ports.ts';
import type { StateDefinition } from './tables.ts';
import type { TaskAttempt } from './task-attempt.ts';
import { expiryOf, resultId } from './timers/expiring-state.ts';
import { retryAfterMs } from './timers/process-step.ts';
import { nodesOfTopology } from './topology.ts';

/** States whose windows are closed in one batch at most; what is left is closed with the next one. */
export const closedMax = 500;
/** What one state has to do in one batch at most, as timers that set timers do. */
const closedOfOneMax = 1000;

/** Which windows a batch closes, where it is not simply all whose time has come. */
export interface Closing {
  /** States whose windows are closed, the earliest first; 0 leaves all of them for later. */
  readonly statesMax: number;
  /** Why the windows that are to be closed are kept instead, and tried again later. */
  readonly refused?: Error;
  /** Set where records that steps have held are left where they are, too. */
  readonly keepsHeld?: boolean;
  /** Timers that are due before a record of their key are postponed instead of fired: the record comes alone. */
  readonly postponesTimers?: true;
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

/** Gives up a record that a step has held. */
export type GiveUp = (given: GivenUp, error: Error) => void;

export interface WindowCloser {
  /** Hands on the windows of a task whose time has come, by its stream or, when that is quiet, by the wall clock. */
  close(
    attempt: TaskAttempt,
    options: { readonly memory: LaneMemory; readonly giveUp: GiveUp },
  ): Promise<void>;
  /** Hands on what steps have held until a record came that has been through by itself, one by one. */
  handOnHeld(
    attempt: TaskAttempt,
    options: { readonly at: StepContext; readonly changed: readonly StateChange[]; readonly giveUp: GiveUp },
  ): Promise<void>;
}

/** Sees to the windows, timers and expiring states of a task whose time has come, by its stream or by the wall clock. */
export const createWindowCloser = (
  { topology, store, projection, onWindowFailure }: ComputeOptions,
  compiled: Map<TopologyNode, Step>,
): WindowCloser => {
  const stepOf = (node: TopologyNode, state: StateDefinition, onDue: DueHandler): ClosingStep => ({
    state: expiryOf(state),
    onDue,
    next: nextOf(node, compiled),
  });
  const steps = new Map<string, ClosingStep>(
    nodesOfTopology(topology).flatMap((node) =>
      node.onDue && node.state ? [[expiryOf(node.state).name, stepOf(node, node.state, node.onDue)]] : [],
    ),
  );
  const names = [...steps.keys()];
  const goesByTime = steps.values().some(({ onDue }) => !onDue.giveUp);

  /** In the order of their times, each state once: as the store has them, or as what is not committed yet has made them. */
  const findDue = async (
    { task: { partition } }: TaskAttempt,
    { at, memory, clocks }: { at: StepContext; memory: LaneMemory; clocks: Clocks },
  ): Promise<readonly Due[]> => {
    const until = { ...clocks, untilMs: untilOf(clocks) };
    const stored = await loading(
      store.findDue(projection, { partition, ...until, statesMax: closedMax, states: names }),
    );
    const inFlight = [...memory.inFlight.map(({ run }) => run), at.run]
      .flatMap((run) => run.states)
      .flatMap(({ place, state, key, value, ...times }) => {
        const dueAtMs = place.partition === partition ? dueSince(times, until) : undefined;
        return dueAtMs === undefined ? [] : [{ state: state.name, key, value, dueAtMs }];
      });
    const found = new Map<string, Due>();
    for (const { state, key, value, dueAtMs } of [...stored, ...inFlight]) {
      const step = steps.get(state);
      if (step && currentValue(at, { step, key, value }) !== undefined)
        found.set(`${state} ${key}`, { step, key, dueAtMs, value });
    }
    return [...found.values()].sort((a, b) => a.dueAtMs - b.dueAtMs);
  };

  const closeOne = async (attempt: TaskAttempt, at: StepContext, due: Due, clocks: Clocks): Promise<void> => {
    const { step, key } = due;
    const value = currentValue(at, due);
    let reachedMs = attempt.time.streamTimeMs;
    // A window that the wall clock has closed must not be opened again by a late record.
    const pass = (timeMs: number): void => {
      reachedMs = Math.max(reachedMs, timeMs);
    };
    const handOn = (result: FinalResult): void => {
      const { timeMs, origin } = result;
      if (origin && result.streamTimeMs === undefined) {
        at.origin = origin;
        step.next(key, result.value, at);
        return;
      }
      // Only what is final ends something.
      if (result.streamTimeMs === undefined && !result.movesNoClock) pass(timeMs);
      at.origin = origin ?? originAt(result, () => resultId(projection.name, step.state.name, key, result));
      // What follows takes it for as late as it is, however far the records of its batch have come since.
      const streamTimeMs = result.streamTimeMs ?? Math.max(attempt.before.streamTimeMs, timeMs);
      atTime(at, { placeTimeMs: timeMs, streamTimeMs }, () => step.next(key, result.value, at));
    };
    const drop = (state: StateDefinition): void =>
      at.run.write({ place: at.place, state, key, value: undefined });
    const untilMs = untilOf(clocks);
    const { done: left, run } = await aside(at, () =>
      step.onDue.close({ key, value, untilMs, clocks, handOn, pass, drop }),
    );
    at.run.absorb(run);
    noteMissing(at.run, run);
    at.run.write({ place: at.place, state: step.state, key, value: undefined, ...left });
    attempt.time.streamTimeMs = reachedMs;
  };

  const fail = (at: StepContext, due: Due, clocks: Clocks, { error, giveUp }: Failure): void => {
    const { step, key } = due;
    const value = currentValue(at, due);
    const given = step.onDue.giveUp?.({ value });
    if (given) {
      giveUp(given, error);
      at.run.write({ place: at.place, state: step.state, key, ...given.left });
      return;
    }
    onWindowFailure(error, { state: step.state.name, key });
    const untilMs = untilOf(clocks);
    const postponed = step.onDue.postpone({ value, untilMs, clocks, toMs: untilMs + retryAfterMs });
    at.run.write({ place: at.place, state: step.state, key, ...postponed });
  };

  /** One after the other, each in a run of its own, so that it is known which one fails. */
  const closeAll = async (
    attempt: TaskAttempt,
    at: StepContext,
    due: Due,
    { clocks, closing, giveUp }: { clocks: Clocks; closing?: Closing | undefined; giveUp: GiveUp },
  ): Promise<void> => {
    const { statesMax = Number.POSITIVE_INFINITY, refused } = closing ?? {};
    // A timer may set others that are due by now, and behind a record that was held the next one may wait.
    for (let closed = 0; closed === 0 || (closed < closedOfOneMax && isDue(at, due, clocks)); closed++) {
      // What an earlier one handed on may have ended it.
      if (attempt.closed >= statesMax || currentValue(at, due) === undefined) return;
      attempt.closed++;
      try {
        if (refused) throw refused;
        await closeOne(attempt, at, due, clocks);
      } catch (error) {
        fail(at, due, clocks, { error: asError(error), giveUp });
      }
    }
  };

  return {
    close: async (attempt, { memory, giveUp }) => {
      const [first] = attempt.places;
      if (!first) return;
      const { at, input } = first;
      const { closing, wallClockMs } = input;
      // What was held and can go on is looked for when the clock is: batches need not ask the store each time.
      if (!goesByTime && wallClockMs === undefined) return;
      const clocks = clocksOf(attempt, wallClockMs);
      if (closing?.statesMax === 0 || untilOf(clocks) === Number.NEGATIVE_INFINITY) return;
      for (const due of await findDue(attempt, { at, memory, clocks }))
        await closeAll(attempt, at, due, { clocks, closing, giveUp });
    },
    handOnHeld: async (attempt, { at, changed, giveUp }) => {
      const clocks = clocksOf(attempt);
      for (const { state, key, value, dueAtMs } of changed) {
        const step = steps.get(state.name);
        if (!step?.onDue.giveUp || dueAtMs === undefined) continue;
        await closeAll(attempt, at, { step, key, value, dueAtMs }, { clocks, giveUp });
      }
    },
  };
};

interface Failure {
  readonly error: Error;
  readonly giveUp: GiveUp;
}

const clocksOf = (
  { time: { streamTimeMs } }: TaskAttempt,
  wallClockMs = Number.NEGATIVE_INFINITY,
): Clocks => ({ streamTimeMs, wallClockMs });

const untilOf = ({ streamTimeMs, wallClockMs }: Clocks): number => Math.max(streamTimeMs, wallClockMs);

/** Whether what is left of a state wants to be looked at again. */
const isDue = (at: StepContext, { step, key }: Due, clocks: Clocks): boolean => {
  const left = at.run.findChange(step.state.name, key);
  return left !== undefined && dueSince(left, { ...clocks, untilMs: untilOf(clocks) }) !== undefined;
};

/** Most early results end in a filter or a row, where nobody asks for their ids: these are made when somebody does. */
const originAt = (result: FinalResult, newId: () => string): Origin => {
  let id = result.id;
  return {
    timeMs: result.timeMs,
    get id() {
      id ??= newId();
      return id;
    },
  };
};

/** What another window of the same batch has put into it counts. */
const currentValue = (at: StepContext, { step, key, value }: Omit<Due, 'dueAtMs'>): unknown =>
  (at.run.find(step.state.name, key) ?? { value }).value;
