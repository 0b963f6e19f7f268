import type { DueHandler, Origin, StepContext, TopologyNode } from '../graph.ts';
import { keyed } from '../keyed.ts';
import type { GlobalState, StateDefinition } from '../tables.ts';

/** For a join with a global table whose rows may come a little later than who looks them up. */
export interface WaitForRow {
  /** The name of the state in which records wait. */
  readonly name: string;
  /** How long a record waits at least for a row that is not there, by the wall clock, before it goes on without. */
  readonly waitMs: number;
}

interface WaitingRecord extends Pick<Origin, 'id' | 'timeMs'> {
  readonly value: unknown;
  /** Several of one key may come of one event. */
  readonly number: number;
  readonly dueAtMs: number;
}

/** Records of one key that wait at most. */
const waitingMax = 1000;

/** What waits of a key, in its order. Called as `inOrder` calls it: who waits for an event to be in a model looks there. */
interface WaitState {
  readonly held: readonly WaitingRecord[];
}

/**
 * Holds records whose row is not there back, and with them what comes behind them of the same key, so that it stays in order.
 * Whoever has waited long enough is handed on, and then finds the row or does without. The wait is over by the wall clock when
 * everything that was written down by then has been sent and read, so that a backlog does not make rows be missed.
 */
export const waitForRowNode = (
  table: GlobalState,
  { name, waitMs }: WaitForRow,
  keyOf: (value: unknown) => string | null,
): Omit<TopologyNode, 'children'> => {
  if (!Number.isSafeInteger(waitMs) || waitMs < 1)
    throw new RangeError(`${name}: waitMs must be a whole number from 1 on`);
  const state: StateDefinition = { name };
  return {
    kind: 'wait',
    label: `${name}: wait up to ${waitMs} ms for a row of ${table.name}`,
    state,
    compile: (next) => (recordKey, value, at) => {
      const key = keyed(recordKey, state);
      const known = at.run.read(state, key);
      const hasRow = isThere(table, keyOf(value), at);
      if (!known || hasRow === undefined) return;
      const waiting = (known.value as WaitState | undefined)?.held ?? [];
      // A time that is not to be believed would be waited for too long.
      if (waiting.length === 0 && (hasRow || at.origin.isEarly)) {
        next(key, value, at);
        return;
      }
      if (waiting.length >= waitingMax)
        throw new Error(
          `${waitingMax} records of ${key} wait for rows of ${table.name} in ${name}: make its waitMs shorter`,
        );
      const dueAtMs = Math.max(at.nowMs, at.task.streamTimeMs) + waitMs;
      const number = (waiting.at(-1)?.number ?? 0) + 1;
      const { id, timeMs } = at.origin;
      const after: WaitState = { held: [...waiting, { id, timeMs, value, number, dueAtMs }] };
      at.run.write({ place: at.place, state, key, value: after, dueAtMs: dueOf(after) });
    },
    onDue: waitIsOver,
  };
};

/** Undefined where it has to be loaded first. */
const isThere = (table: GlobalState, wanted: string | null, at: StepContext): boolean | undefined => {
  if (wanted === null) return true;
  const known = at.run.read(table, wanted);
  return known && known.value !== undefined;
};

/** Nobody goes before the first. */
const dueOf = ({ held }: WaitState): number => held[0]?.dueAtMs ?? Number.POSITIVE_INFINITY;

const waitIsOver: DueHandler = {
  close: ({ value, untilMs, handOn }) => {
    const { held } = value as WaitState;
    const firstLeft = held.findIndex(({ dueAtMs }) => dueAtMs > untilMs);
    const over = firstLeft < 0 ? held : held.slice(0, firstLeft);
    for (const { id, number, timeMs, value: given } of over) {
      handOn({ name: `${id} ${number}`, timeMs, value: given });
    }
    if (firstLeft < 0) return undefined;
    const left: WaitState = { held: held.slice(firstLeft) };
    return { value: left, dueAtMs: dueOf(left) };
  },
  postpone: ({ value, untilMs, toMs }) => {
    const later: WaitState = {
      held: (value as WaitState).held.map((record) =>
        record.dueAtMs > untilMs ? record : { ...record, dueAtMs: toMs },
      ),
    };
    return { value: later, dueAtMs: dueOf(later) };
  },
};
