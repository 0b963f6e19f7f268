import { asideNow } from '../aside.ts';
import { idAt } from '../derived-id.ts';
import type { DueHandler, Step, StepContext, TopologyNode } from '../graph.ts';
import { keyed } from '../keyed.ts';
import { atTime } from '../piped-records.ts';
import type { StateDefinition } from '../tables.ts';
import { positive } from '../windows.ts';
import { expiresAtMs } from './expiring-state.ts';
import {
  firstDue,
  type ProcessState,
  postponed,
  processState,
  type StoredTimer,
  stateAt,
  storedState,
  withoutTimer,
  withTimer,
} from './process-state.ts';
import type { Processor, ProcessorContext, RecordMetadata, TimerSetting } from './processor.ts';

/** Timers of one key at most. */
const timersMax = 1000;
/** Timers of one key that come before one record at most, as when each sets the next one. */
const firedMax = 1000;
/** A timer that fails has no record to set aside: it is kept and tried again after this time. */
export const retryAfterMs = 60_000;

interface ProcessStep {
  readonly name: string;
  readonly topology: string;
  readonly processor: Processor<unknown, unknown, unknown>;
}

/**
 * One state per key: what the processor has stored, and its timers. Timers that are due come before the next record of their
 * key, so that the order in which a key sees its timers and records does not depend on batches; the others come with the end of
 * a batch or, by the wall clock, with a tick.
 */
export const processNode = (step: ProcessStep): Omit<TopologyNode, 'children'> => {
  const { name, processor } = step;
  const { expireAfterMs, onTimer } = processor;
  if (expireAfterMs !== undefined) positive('expireAfterMs', expireAfterMs);
  // Its expiry is its own: the values lie beside timers that stay.
  const state: StateDefinition = { name };
  return {
    kind: 'process',
    label: onTimer ? `${name}, with timers` : name,
    state,
    ...(expireAfterMs !== undefined && { expireAfterMs }),
    compile: (next) => (recordKey, value, at) => {
      const key = keyed(recordKey, state);
      const known = at.run.read(state, key);
      if (!known) return;
      const before = processState(known.value);
      const reached = fireBefore(step, before, { key, at, next });
      const after = invoke(step, stateAt(reached, at.task.streamTimeMs), {
        cause: at.origin,
        key,
        streamTimeMs: at.task.streamTimeMs,
        forward: (result) => next(key, result, at),
        work: (context) => processor.onRecord({ key, value, metadata: metadataOf(at) }, context),
      });
      if (after !== before) at.run.write({ place: at.place, state, key, ...storedState(after) });
    },
    onDue: dueHandler(step),
  };
};

interface Invocation {
  /** What sets timers: their ids follow from it. */
  readonly cause: { readonly id: string; readonly timer?: StoredTimer };
  readonly key: string;
  readonly streamTimeMs: number;
  readonly forward: (value: unknown) => void;
  readonly work: (context: ProcessorContext<unknown, unknown>) => unknown;
}

/** Runs one of the processor's functions and answers with the state it leaves. */
const invoke = (step: ProcessStep, before: ProcessState, invocation: Invocation): ProcessState => {
  const { processor, name } = step;
  const { streamTimeMs, forward, work } = invocation;
  let state = before;
  let set = 0;
  const returned = work({
    streamTimeMs,
    store: {
      get: () => state.kept,
      put: (kept) => {
        const overMs = expiresAtMs(processor, streamTimeMs);
        state = { timers: state.timers, kept, ...(overMs !== undefined && { expiresAtMs: overMs }) };
      },
      delete: () => {
        state = { timers: state.timers };
      },
    },
    forward,
    schedule: (setting) => {
      state = withTimer(state, timerOf(step, invocation, setting, set++));
      if (state.timers.length > timersMax)
        throw new RangeError(`${invocation.key} has more than ${timersMax} timers in ${name}`);
    },
    cancel: (timer) => {
      if (state.timers.some((one) => one.name === timer)) state = withoutTimer(state, timer);
    },
  });
  if (returned instanceof Promise)
    throw new TypeError(`The functions of ${name} must not be async: a batch does not wait for them`);
  return state;
};

const timerOf = (
  { topology, name: step, processor }: ProcessStep,
  { cause, key, streamTimeMs }: Invocation,
  { name, atMs, by }: TimerSetting,
  index: number,
): StoredTimer => {
  if (!processor.onTimer) throw new Error(`${step} sets a timer and has no onTimer`);
  if (!Number.isSafeInteger(atMs))
    throw new RangeError(`The timer ${name} of ${step} needs a time in whole milliseconds, not ${atMs}`);
  if (cause.timer && atMs <= cause.timer.atMs)
    throw new RangeError(`The timer ${name} of ${step} must be set for later than the timer that sets it`);
  // What is set for a time that the stream has passed is due now: what it hands on must not be late by itself.
  const dueMs = by === 'stream-time' ? Math.max(atMs, streamTimeMs) : atMs;
  return {
    name,
    atMs: dueMs,
    by,
    id: idAt(dueMs, `${topology} ${step} ${key} ${name} ${cause.id} ${index}`),
  };
};

/** What a timer hands on happened when it was due; one that comes later than its stream has come, happens now. */
const timeOf = ({ by, atMs, retryAtMs }: StoredTimer, streamTimeMs: number): number =>
  by === 'stream-time' && retryAtMs === undefined ? atMs : Math.max(atMs, streamTimeMs);

const fire = (
  step: ProcessStep,
  before: ProcessState,
  {
    timer,
    key,
    streamTimeMs,
    handOn,
  }: {
    readonly timer: StoredTimer;
    readonly key: string;
    readonly streamTimeMs: number;
    readonly handOn: (value: unknown, timeMs: number) => void;
  },
): ProcessState => {
  const timeMs = timeOf(timer, streamTimeMs);
  const { name, atMs, by } = timer;
  return invoke(step, withoutTimer(stateAt(before, timeMs), name), {
    cause: { id: timer.id, timer },
    key,
    streamTimeMs: timeMs,
    forward: (value) => handOn(value, timeMs),
    work: (context) => step.processor.onTimer?.({ key, name, atMs, by }, context),
  });
};

/** The timers of a key that come before the record at hand, each whole or not at all. */
const fireBefore = (
  step: ProcessStep,
  before: ProcessState,
  { key, at, next }: { readonly key: string; readonly at: StepContext; readonly next: Step },
): ProcessState => {
  const { streamTimeMs } = at.task;
  const wallClockMs = at.origin.isEarly ? Number.NEGATIVE_INFINITY : at.origin.timeMs;
  let state = before;
  for (let fired = 0; fired < firedMax; fired++) {
    const timer = firstDue(state, { streamTimeMs, wallClockMs });
    if (!timer) break;
    const retryAtMs = Math.max(streamTimeMs, wallClockMs) + retryAfterMs;
    if (at.postponesTimers) {
      state = postponed(state, timer, retryAtMs);
      continue;
    }
    const handOn = (value: unknown, timeMs: number): void => {
      at.origin = { id: timer.id, timeMs };
      atTime(at, { placeTimeMs: timeMs, streamTimeMs: timeMs }, () => next(key, value, at));
    };
    const current = state;
    try {
      state = asideNow(at, () => fire(step, current, { timer, key, streamTimeMs, handOn }));
    } catch (error) {
      at.onTimerFailure(error as Error, { state: step.name, key });
      state = postponed(state, timer, retryAtMs);
    }
  }
  return state;
};

/** One timer at a time: whoever looks asks again while something is due. */
const dueHandler = (step: ProcessStep): DueHandler => ({
  close: ({ key, value, clocks, untilMs, handOn }) => {
    const before = processState(value);
    const timer = firstDue(before, clocks);
    if (!timer) return storedState(stateAt(before, untilMs));
    return storedState(
      fire(step, before, {
        timer,
        key,
        streamTimeMs: clocks.streamTimeMs,
        handOn: (result, timeMs) =>
          handOn({ id: timer.id, name: timer.name, timeMs, value: result, movesNoClock: true }),
      }),
    );
  },
  postpone: ({ value, clocks, toMs }) => {
    const before = processState(value);
    const timer = firstDue(before, clocks);
    return storedState(timer ? postponed(before, timer, toMs) : before);
  },
});

const metadataOf = ({ origin, place }: StepContext): RecordMetadata => {
  const { id, timeMs, isEarly = false, raw } = origin;
  return {
    id,
    timeMs,
    isEarly,
    topic: place.topic,
    partition: place.partition,
    offset: raw?.offset,
    get headers() {
      return raw?.headers ?? {};
    },
  };
};
