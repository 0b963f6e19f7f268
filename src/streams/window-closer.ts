import { aside } from './aside.ts';
import { asError, type ComputeOptions } from './compute-batch.ts';
import { idAt } from './derived-id.ts';
import {
  type DueHandler,
  type FinalResult,
  type GivenUp,
  nextOf,
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
  /** Set where records that steps have held are left where they are, too. */
  readonly keepsHeld?: boolean;
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

export const createWindowCloser = (
  { topology, store, projection, onWindowFailure }: ComputeOptions,
  compiled: Map<TopologyNode, Step>,
): WindowCloser => {
  const steps = new Map<string, ClosingStep>(
    nodesOfTopology(topology).flatMap((node) =>
      node.onDue && node.state
        ? [[node.state.name, { state: node.state, onDue: node.onDue, next: nextOf(node, compiled) }]]
        : [],
    ),
  );
  const names = [...steps.keys()];
  const goesByTime = steps.values().some(({ onDue }) => !onDue.giveUp);

  /** In the order of their times, each state once: as the store has them, or as what is not committed yet has made them. */
  const findDue = async (
    { task: { partition } }: TaskAttempt,
    { at, memory, untilMs }: { at: StepContext; memory: LaneMemory; untilMs: number },
  ): Promise<readonly Due[]> => {
    const stored = await loading(
      store.findDue(projection, { partition, untilMs, statesMax: closedMax, states: names }),
    );
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
  ): Promise<ClosedState> => {
    const { step, key } = due;
    const value = currentValue(at, due);
    let reachedMs = attempt.time.streamTimeMs;
    // A window that the wall clock has closed must not be opened again by a late record.
    const pass = (timeMs: number): void => {
      reachedMs = Math.max(reachedMs, timeMs);
    };
    const handOn = ({ name, timeMs, value: result, origin }: FinalResult): void => {
      if (origin) {
        at.origin = origin;
        step.next(key, result, at);
        return;
      }
      pass(timeMs);
      at.origin = { id: idAt(timeMs, `${projection.name} ${step.state.name} ${key} ${name}`), timeMs };
      // What follows takes it for as late as it is, however far the records of its batch have come since.
      const streamTimeMs = Math.max(attempt.before.streamTimeMs, timeMs);
      atTime(at, { placeTimeMs: timeMs, streamTimeMs }, () => step.next(key, result, at));
    };
    const { done: left, run } = await aside(at, () =>
      step.onDue.close({ key, value, untilMs, handOn, pass }),
    );
    at.run.absorb(run);
    // What it misses is loaded with what the whole batch misses.
    for (const [state, keys] of run.missing) for (const missed of keys) at.run.read(state, missed);
    at.run.write({ place: at.place, state: step.state, key, value: undefined, ...left });
    attempt.time.streamTimeMs = reachedMs;
    return left;
  };

  const fail = (at: StepContext, due: Due, untilMs: number, error: Error, giveUp: GiveUp): void => {
    const { step, key } = due;
    const value = currentValue(at, due);
    const given = step.onDue.giveUp?.({ value });
    if (given) {
      giveUp(given, error);
      at.run.write({ place: at.place, state: step.state, key, ...given.left });
      return;
    }
    onWindowFailure(error, { state: step.state.name, key });
    const postponed = step.onDue.postpone({ value, untilMs, toMs: untilMs + retryAfterMs });
    at.run.write({ place: at.place, state: step.state, key, ...postponed });
  };

  /** A window at once; what was held one by one, each in a run of its own, so that it is known which one fails. */
  const closeAll = async (
    attempt: TaskAttempt,
    at: StepContext,
    due: Due,
    { untilMs, closing, giveUp }: { untilMs: number; closing: Closing | undefined; giveUp: GiveUp },
  ): Promise<void> => {
    try {
      if (closing?.refused) throw closing.refused;
      let left = await closeOne(attempt, at, due, untilMs);
      while (due.step.onDue.giveUp && !closing && left?.dueAtMs !== undefined)
        left = await closeOne(attempt, at, due, untilMs);
    } catch (error) {
      fail(at, due, untilMs, asError(error), giveUp);
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
      const untilMs = Math.max(attempt.time.streamTimeMs, wallClockMs ?? Number.NEGATIVE_INFINITY);
      if (closing?.statesMax === 0 || untilMs === Number.NEGATIVE_INFINITY) return;
      const found = await findDue(attempt, { at, memory, untilMs });
      for (const due of found.slice(0, closing?.statesMax)) {
        attempt.closed++;
        await closeAll(attempt, at, due, { untilMs, closing, giveUp });
      }
    },
    handOnHeld: async (attempt, { at, changed, giveUp }) => {
      const untilMs = attempt.time.streamTimeMs;
      for (const { state, key, value, dueAtMs } of changed) {
        const step = steps.get(state.name);
        if (!step?.onDue.giveUp || dueAtMs === undefined) continue;
        await closeAll(attempt, at, { step, key, value, dueAtMs }, { untilMs, closing: undefined, giveUp });
      }
    },
  };
};

type ClosedState = ReturnType<DueHandler['close']>;

/** What another window of the same batch has put into it counts. */
const currentValue = (at: StepContext, { step, key, value }: Omit<Due, 'dueAtMs'>): unknown =>
  (at.run.find(step.state.name, key) ?? { value }).value;
