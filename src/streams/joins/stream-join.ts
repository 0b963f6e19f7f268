import { idAt } from '../derived-id.ts';
import { durationText } from '../duration-text.ts';
import type { DueHandler, Origin, Step, StepContext, TopologyNode } from '../graph.ts';
import { keyed } from '../keyed.ts';
import type { StateDefinition } from '../tables.ts';
import {
  areClose,
  closesAtMs,
  type JoinWindows,
  otherSide,
  readyAtMs,
  type Side,
  type WaitingRecord,
} from './join-windows.ts';

export type JoinKind = 'inner' | 'left' | 'outer';

export interface StreamJoinOptions {
  /** The name of the state in which the records of both sides wait; part of the ids of what comes of them. */
  readonly name: string;
  readonly windows: JoinWindows;
  /** Records of one key that wait on one side at most: what is beyond that fails. */
  readonly bufferedMax?: number;
}

interface StreamJoin extends StreamJoinOptions {
  readonly topology: string;
  readonly kind: JoinKind;
  readonly combine: (left: unknown, right: unknown) => unknown;
}

/** What a key's records wait in. */
type JoinState = Readonly<Record<Side, readonly WaitingRecord[]>>;

const nobody: JoinState = { left: [], right: [] };
const bufferedMaxDefault = 1000;
const sides = ['left', 'right'] as const satisfies readonly Side[];

/** A record on its way into a join. */
interface Sided {
  readonly side: Side;
  readonly value: unknown;
}

/** Says of which side a record is; both lead to the join. */
export const sideNode = (side: Side, { name }: StreamJoinOptions): Omit<TopologyNode, 'children'> => ({
  kind: 'join-side',
  label: `${side} side of ${name}`,
  compile: (next) => (key, value, at) => next(key, { side, value } satisfies Sided, at),
});

/**
 * Records of both sides wait in one state per key until their window and the grace are over, and meet whoever comes
 * meanwhile: every pair is handed on once, when the second of the two comes. Whoever has met nobody is handed on alone
 * where the join asks for it, once, when its wait is over; what is joined once never comes alone.
 */
export const streamJoinNode = (join: StreamJoin): Omit<TopologyNode, 'children'> => {
  const { name, kind, windows, bufferedMax = bufferedMaxDefault } = join;
  const state: StateDefinition = { name };
  return {
    kind: 'stream-join',
    label: `${kind} join ${name}, ${windowsText(windows)}`,
    state,
    meets: [],
    compile: (next) => (recordKey, given, at) => {
      const key = keyed(recordKey, state);
      const known = at.run.read(state, key);
      if (!known) return;
      const { side, value } = given as Sided;
      const before = (known.value as JoinState | undefined) ?? nobody;
      const record: WaitingRecord = { id: at.origin.id, timeMs: at.origin.timeMs, value };
      const met = metBy(join, before, { side, record, streamTimeMs: at.task.streamTimeMs });
      const isOpen = closesAtMs(windows, side, record) > at.task.streamTimeMs;
      if (!isOpen && met.length === 0) {
        at.run.noteLate(at);
        return;
      }
      if (isOpen && before[side].length >= bufferedMax) throw new TooManyWait(join, key, side, bufferedMax);
      const after = stateAfter(join, before, { side, record, met, isOpen });
      if (after !== before) {
        at.run.write({ place: at.place, state, key, value: after, dueAtMs: dueAtMs(windows, after) });
      }
      for (const other of met) {
        handOnPair(join, key, side === 'left' ? [record, other] : [other, record], { next, at });
      }
    },
    onDue: dueHandler(join),
  };
};

class TooManyWait extends Error {
  override readonly name = 'TooManyWait';
  constructor({ name }: StreamJoin, key: string, side: Side, bufferedMax: number) {
    super(
      `${bufferedMax} records of ${key} wait on the ${side} side of the join ${name}: raise its bufferedMax, or make its ` +
        'windows or their grace shorter',
    );
  }
}

interface Arrival {
  readonly side: Side;
  readonly record: WaitingRecord;
}

/** Those of the other side that still wait: whether their wait is over is told by the time of the stream, not by who has looked. */
const metBy = (
  { windows }: StreamJoin,
  state: JoinState,
  { side, record, streamTimeMs }: Arrival & { readonly streamTimeMs: number },
): readonly WaitingRecord[] => {
  const other = otherSide[side];
  return state[other].filter(
    (waiting) =>
      closesAtMs(windows, other, waiting) > streamTimeMs &&
      areClose(
        windows,
        side === 'left' ? { left: record, right: waiting } : { left: waiting, right: record },
      ),
  );
};

const wantsAlone = (kind: JoinKind, side: Side): boolean =>
  kind === 'outer' || (kind === 'left' && side === 'left');

const stateAfter = (
  { kind }: StreamJoin,
  before: JoinState,
  {
    side,
    record,
    met,
    isOpen,
  }: Arrival & { readonly met: readonly WaitingRecord[]; readonly isOpen: boolean },
): JoinState => {
  const other = otherSide[side];
  const isNews = wantsAlone(kind, other) && met.some(({ isMatched }) => !isMatched);
  if (!isNews && !isOpen) return before;
  const others = isNews
    ? before[other].map((waiting) => (met.includes(waiting) ? { ...waiting, isMatched: true } : waiting))
    : before[other];
  const isMatched = wantsAlone(kind, side) && met.length > 0;
  const own = isOpen ? [...before[side], isMatched ? { ...record, isMatched } : record] : before[side];
  return side === 'left' ? { left: own, right: others } : { left: others, right: own };
};

/** Its id follows from both records, whichever came first; it happened when the later of them did. */
const handOnPair = (
  { topology, name, combine }: StreamJoin,
  key: string,
  [left, right]: readonly [WaitingRecord, WaitingRecord],
  { next, at }: { readonly next: Step; readonly at: StepContext },
): void => {
  const current = at.origin;
  const timeMs = Math.max(left.timeMs, right.timeMs);
  const pair: Origin = { id: idAt(timeMs, `${topology} ${name} ${left.id} ${right.id}`), timeMs };
  at.origin = pair;
  next(key, combine(left.value, right.value), at);
  at.origin = current;
};

const waitingOf = (state: JoinState): readonly (Arrival & { readonly record: WaitingRecord })[] =>
  sides.flatMap((side) => state[side].map((record) => ({ side, record })));

const dueAtMs = (windows: JoinWindows, state: JoinState): number =>
  waitingOf(state).reduce(
    (earliest, { side, record }) => Math.min(earliest, readyAtMs(windows, side, record)),
    Number.POSITIVE_INFINITY,
  );

const dueHandler = ({ kind, windows, combine }: StreamJoin): DueHandler => ({
  close: ({ value, untilMs, handOn, pass }) => {
    const state = value as JoinState;
    const isOver = ({ side, record }: Arrival): boolean => readyAtMs(windows, side, record) <= untilMs;
    const over = waitingOf(state)
      .filter(isOver)
      .map((one) => ({ ...one, timeMs: closesAtMs(windows, one.side, one.record) }))
      .sort((a, b) => a.timeMs - b.timeMs);
    for (const { side, record, timeMs } of over) {
      if (record.isMatched || !wantsAlone(kind, side)) {
        pass(timeMs);
        continue;
      }
      const alone = side === 'left' ? combine(record.value, undefined) : combine(undefined, record.value);
      handOn({ name: `${side} ${record.id}`, timeMs, value: alone });
    }
    const left: JoinState = {
      left: state.left.filter((record) => !isOver({ side: 'left', record })),
      right: state.right.filter((record) => !isOver({ side: 'right', record })),
    };
    const isEmpty = left.left.length + left.right.length === 0;
    return isEmpty ? undefined : { value: left, dueAtMs: dueAtMs(windows, left) };
  },
  postpone: ({ value, untilMs, toMs }) => {
    const state = value as JoinState;
    const later = (side: Side): readonly WaitingRecord[] =>
      state[side].map((record) =>
        readyAtMs(windows, side, record) > untilMs ? record : { ...record, retryAtMs: toMs },
      );
    const postponed: JoinState = { left: later('left'), right: later('right') };
    return { value: postponed, dueAtMs: dueAtMs(windows, postponed) };
  },
});

const windowsText = ({ beforeMs, afterMs, graceMs }: JoinWindows): string =>
  `from ${durationText(beforeMs)} before to ${durationText(afterMs)} after, grace ${durationText(graceMs)}`;
