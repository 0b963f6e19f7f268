import { type DueHandler, type Origin, originAlone, type TopologyNode } from '../graph.ts';
import { keyed } from '../keyed.ts';
import type { StateDefinition } from '../tables.ts';
import { positive } from '../windows.ts';
import { type AtMostEvery, atMostEveryText } from './emit.ts';
import { offer, type Pace, type Passed, postponed, release, type Update } from './pace.ts';

/** A record as it came: it keeps its id and time, however long it waits. */
interface HeldRecord extends Update {
  readonly origin: Origin;
  readonly value: unknown;
}

interface SuppressState {
  readonly pace: Pace<HeldRecord>;
  /** To be handed on with this batch. */
  readonly ready: readonly HeldRecord[];
}

/**
 * Hands on the latest record of each key, so often at most. As with results of windows nothing is handed on by the step of a
 * record: a record that waited must not make the next one of its key fail.
 */
export const suppressNode = (name: string, every: AtMostEvery): Omit<TopologyNode, 'children'> => {
  const state: StateDefinition = { name };
  const pauseMs = positive('atMostEveryMs', every.atMostEveryMs);
  return {
    kind: 'suppress',
    label: `latest of each key (${name}), ${atMostEveryText(every)}`,
    state,
    compile: () => (recordKey, value, at) => {
      const key = keyed(recordKey, state);
      const known = at.run.read(state, key);
      if (!known) return;
      const before = (known.value as SuppressState | undefined) ?? { pace: {}, ready: [] };
      const whenMs = Math.max(at.task.streamTimeMs, 0);
      const { passed, pace } = offer(before.pace, { origin: originAlone(at.origin), value, whenMs }, pauseMs);
      const after = { pace, ready: [...before.ready, ...passed] };
      at.run.write({ place: at.place, state, key, value: after, dueAtMs: dueAtMs(after, pauseMs) });
    },
    onDue: dueHandler(pauseMs),
  };
};

/** When there is something to hand on; or else when nothing is left to remember. */
const dueAtMs = ({ pace, ready: [first] }: SuppressState, pauseMs: number): number =>
  first?.whenMs ?? pace.retryAtMs ?? pauseIsOverAtMs(pace, pauseMs);

const pauseIsOverAtMs = ({ lastMs = Number.NEGATIVE_INFINITY }: Pace<HeldRecord>, pauseMs: number): number =>
  lastMs + pauseMs;

const dueHandler = (pauseMs: number): DueHandler => {
  const dueOf = (value: unknown, untilMs: number): Passed<HeldRecord> => {
    const { pace: before, ready } = value as SuppressState;
    const { passed, pace } = release(before, untilMs, pauseMs);
    return { passed: [...ready, ...passed], pace };
  };
  return {
    close: ({ value, untilMs, handOn }) => {
      const { passed, pace } = dueOf(value, untilMs);
      for (const { origin, value: held, whenMs } of passed) {
        handOn({ name: origin.id, timeMs: origin.timeMs, value: held, origin, streamTimeMs: whenMs });
      }
      if (!pace.waiting && pauseIsOverAtMs(pace, pauseMs) <= untilMs) return undefined;
      const left: SuppressState = { pace, ready: [] };
      return { value: left, dueAtMs: dueAtMs(left, pauseMs) };
    },
    postpone: ({ value, untilMs, toMs }) => {
      const { passed, pace } = dueOf(value, untilMs);
      const later: SuppressState = { pace: postponed(pace, passed.at(-1), toMs), ready: [] };
      return { value: later, dueAtMs: dueAtMs(later, pauseMs) };
    },
  };
};
