import type { Origin, Step, StepContext, TopologyNode } from './graph.ts';
import { type HeldBytes, heldBytesOf, recordOfHeld } from './held-bytes.ts';
import { keyed } from './keyed.ts';
import type { StateChange } from './ports.ts';
import type { Place } from './record.ts';
import type { StateDefinition } from './tables.ts';

interface HeldRecord extends Origin {
  readonly version: number;
  readonly value: unknown;
  /** The record as it came, for a dead letter; missing where it is none, as the result of a window. */
  readonly from?: HeldBytes;
  /** Where it was read, as long as it is not kept. */
  readonly place?: Place;
}

/** What `inOrder` knows of a key; `projection_waiting_key` shows those that hold something. */
interface OrderState {
  readonly next: number;
  /** By version; the first is `next` only while it is about to be handed on. */
  readonly held: readonly HeldRecord[];
  /** Versions from `next` on that will never come, as an operator has decided. */
  readonly skipped?: readonly number[];
}

const nothingYet: OrderState = { next: 1, held: [] };
const heldMaxDefault = 1000;
/** What is held and can go on has been due all along: no clock has to reach it. */
const sinceEverMs = 0;

export const inOrderNode = (
  name: string,
  { version, heldMax = heldMaxDefault }: { version: (value: unknown) => number; heldMax?: number },
): Omit<TopologyNode, 'children'> => {
  const state: StateDefinition = { name };
  return {
    kind: 'in-order',
    label: name,
    state,
    compile: (next) => (recordKey, value, at) => {
      const key = keyed(recordKey, state);
      const known = at.run.read(state, key);
      if (!known) return;
      const before = (known.value as OrderState | undefined) ?? nothingYet;
      const record = heldRecord(version(value), value, at);
      if (record.version < before.next || before.held.some((held) => held.version === record.version)) return;
      const after = handOnReady(taken(before, record), (ready) => {
        const isOwn = ready === record;
        // Where one of them may be to blame, those that were held go on by themselves: then it is known which.
        if (!isOwn && at.keepsHeld) return false;
        if (!isOwn) at.handsOnHeld = true;
        handOn(next, key, ready, at);
        return true;
      });
      if (after.held.length > heldMax) {
        throw new Error(`${heldMax} records of ${key} wait for version ${after.next}, which has not come`);
      }
      at.run.write({ place: at.place, state, key, ...stored(after) });
    },
    onDue: {
      close: ({ value, handOn: handOnResult }) => {
        let left = 1;
        return stored(
          handOnReady(value as OrderState, (ready) => {
            if (left-- === 0) return false;
            handOnResult({
              name: String(ready.version),
              timeMs: ready.timeMs,
              value: ready.value,
              origin: ready,
            });
            return true;
          }),
        );
      },
      postpone: ({ value, toMs }) => ({ value, dueAtMs: toMs }),
      giveUp: ({ value }) => {
        const { held, ...rest } = passSkipped(value as OrderState);
        const [first, ...others] = held;
        if (!first?.from || first.version !== rest.next) return undefined;
        // From now on its version is missing, until the letter is replayed or the version is skipped.
        return {
          left: { value: { ...rest, held: others } satisfies OrderState },
          origin: first,
          ...recordOfHeld(first.from),
        };
      },
    },
  };
};

/** Not the whole origin: it may be a record with a value that steps before this one have changed. */
const heldRecord = (version: number, value: unknown, { origin, place }: StepContext): HeldRecord => {
  const { id, timeMs, isEarly, recordedMs, raw } = origin;
  return {
    version,
    value,
    id,
    timeMs,
    ...(isEarly && { isEarly }),
    ...(recordedMs !== undefined && { recordedMs }),
    ...(raw && { raw, place }),
  };
};

/** A version that comes after all is not skipped. */
const taken = ({ next, held, skipped = [] }: OrderState, record: HeldRecord): OrderState =>
  orderState({
    next,
    held: [...held, record].sort((a, b) => a.version - b.version),
    skipped: skipped.filter((version) => version !== record.version),
  });

const orderState = ({ skipped = [], next, held }: OrderState): OrderState => ({
  next,
  held,
  ...(skipped.length > 0 && { skipped }),
});

const passSkipped = (state: OrderState): OrderState => {
  if (!state.skipped) return state;
  let { next } = state;
  const skipped = new Set(state.skipped);
  while (skipped.delete(next)) next++;
  return orderState({ next, held: state.held, skipped: [...skipped] });
};

/** Hands on what follows without a gap, for as long as it is taken. */
const handOnReady = (before: OrderState, take: (record: HeldRecord) => boolean): OrderState => {
  let state = passSkipped(before);
  for (let [first] = state.held; first?.version === state.next; [first] = state.held) {
    if (!take(first)) break;
    state = passSkipped({ ...state, next: state.next + 1, held: state.held.slice(1) });
  }
  return state;
};

const isReady = ({ next, held }: OrderState): boolean => held[0]?.version === next;

/** As it is kept: with a copy of the bytes, and not with those of a whole batch. */
const stored = (state: OrderState): Pick<StateChange, 'value' | 'dueAtMs'> => ({
  value: {
    ...state,
    held: state.held.map(({ raw, place, ...record }) => ({
      ...record,
      ...(raw && place && { from: heldBytesOf(place, raw) }),
    })),
  } satisfies OrderState,
  ...(isReady(state) && { dueAtMs: sinceEverMs }),
});

/** A record that was held keeps its own id and time. */
const handOn = (next: Step, key: string, record: HeldRecord, at: StepContext): void => {
  const current = at.origin;
  at.origin = record;
  next(key, record.value, at);
  at.origin = current;
};

/** What an operator's word, that a version will never come, does to the state of a key. */
export type SkippedVersion =
  | {
      readonly outcome: 'skipped';
      readonly version: number;
      /** Records that go on with it. */
      readonly released: number;
      /** What the key waits for after it. */
      readonly next: number;
      readonly state: Pick<StateChange, 'value' | 'dueAtMs'>;
    }
  /** The version is here already, or was passed before. */
  | { readonly outcome: 'held' | 'passed'; readonly version: number; readonly next: number };

/** The missing version, unless another one is named. What is held goes on when the projection comes to look. */
export const skipVersion = (value: unknown, named?: number): SkippedVersion => {
  const before = value as OrderState;
  const { next, held, skipped = [] } = before;
  const missing = passSkipped(before).next;
  const version = named ?? missing;
  if (version < missing || skipped.includes(version)) return { outcome: 'passed', version, next: missing };
  if (held.some((record) => record.version === version)) return { outcome: 'held', version, next: missing };
  const state = orderState({ next, held, skipped: [...skipped, version].sort((a, b) => a - b) });
  let released = 0;
  const after = handOnReady(state, () => ++released > 0);
  const { value: kept } = stored(state);
  return {
    outcome: 'skipped',
    version,
    released,
    next: after.next,
    state: { value: kept, ...(released > 0 && { dueAtMs: sinceEverMs }) },
  };
};

/** Whether a state is one of `inOrder`: what else is kept has another shape. */
export const isOrderState = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  'next' in value &&
  Number.isSafeInteger(value.next) &&
  'held' in value &&
  Array.isArray(value.held);
