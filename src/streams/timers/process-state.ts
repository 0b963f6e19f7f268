import type { DueValue } from '../graph.ts';
import type { DueTimes } from '../ports.ts';
import type { TimerClock } from './processor.ts';

/** A timer as it is stored. */
export interface StoredTimer {
  readonly name: string;
  readonly atMs: number;
  readonly by: TimerClock;
  /** Of what it hands on. */
  readonly id: string;
  /** Set when it failed: it is not tried again before that, by either clock. */
  readonly retryAtMs?: number;
}

/** What a process step knows of a key. */
export interface ProcessState {
  /** Missing where nothing is stored. */
  readonly kept?: unknown;
  readonly expiresAtMs?: number;
  /**
   * In the order in which they fire where several are due: those by the time of the stream, which may have come there with an
   * earlier record of another key; by time; by name.
   */
  readonly timers: readonly StoredTimer[];
}

interface StoredState extends Omit<ProcessState, 'timers'> {
  readonly timers?: readonly StoredTimer[];
}

export const processState = (stored: unknown): ProcessState => {
  const { timers = [], ...rest } = (stored ?? {}) as StoredState;
  return { ...rest, timers };
};

/** What is to be stored of it; a key with nothing kept and no timer has no state. */
export const storedState = (state: ProcessState): DueValue => {
  const { timers, ...rest } = state;
  if (timers.length === 0 && !('kept' in state)) return { value: undefined };
  const value: StoredState = timers.length === 0 ? rest : { ...rest, timers };
  return { value, ...dueTimesOf(state) };
};

const dueTimesOf = ({ expiresAtMs, timers }: ProcessState): DueTimes => {
  const first = (times: readonly (number | undefined)[]): number =>
    times.reduce<number>((earliest, time) => Math.min(earliest, time ?? earliest), Number.POSITIVE_INFINITY);
  const by = (clock: TimerClock): number =>
    first(
      timers.map(({ by, atMs, retryAtMs }) => (by === clock && retryAtMs === undefined ? atMs : undefined)),
    );
  const dueAtMs = first([expiresAtMs, ...timers.map(({ retryAtMs }) => retryAtMs)]);
  const [streamDueAtMs, clockDueAtMs] = [by('stream-time'), by('wall-clock')];
  return {
    ...(Number.isFinite(dueAtMs) && { dueAtMs }),
    ...(Number.isFinite(streamDueAtMs) && { streamDueAtMs }),
    ...(Number.isFinite(clockDueAtMs) && { clockDueAtMs }),
  };
};

/** As it is at a time: what is stored may be over. */
export const stateAt = (state: ProcessState, timeMs: number): ProcessState =>
  state.expiresAtMs !== undefined && state.expiresAtMs <= timeMs ? { timers: state.timers } : state;

/** How far time has come for the timers of a key. */
interface Reached {
  readonly streamTimeMs: number;
  readonly wallClockMs: number;
}

export const firstDue = ({ timers }: ProcessState, reached: Reached): StoredTimer | undefined =>
  timers.find(({ by, atMs, retryAtMs }) => {
    if (retryAtMs !== undefined) return retryAtMs <= Math.max(reached.streamTimeMs, reached.wallClockMs);
    return atMs <= (by === 'stream-time' ? reached.streamTimeMs : reached.wallClockMs);
  });

export const withoutTimer = (state: ProcessState, name: string): ProcessState => ({
  ...state,
  timers: state.timers.filter((timer) => timer.name !== name),
});

export const withTimer = (state: ProcessState, timer: StoredTimer): ProcessState => ({
  ...state,
  timers: [...withoutTimer(state, timer.name).timers, timer].sort(inTurn),
});

const inTurn = (a: StoredTimer, b: StoredTimer): number => {
  if (a.by !== b.by) return a.by === 'stream-time' ? -1 : 1;
  return a.atMs - b.atMs || (a.name < b.name ? -1 : 1);
};

/** It has failed: others of its key do not wait for it. */
export const postponed = (state: ProcessState, timer: StoredTimer, retryAtMs: number): ProcessState =>
  withTimer(state, { ...timer, retryAtMs });
