import type { DueHandler, FinalResult, StepContext, TopologyNode } from '../graph.ts';
import { keyed } from '../keyed.ts';
import type { Windowed } from '../kstream.ts';
import type { StateDefinition } from '../tables.ts';
import { closesAtMs, type Windows } from '../windows.ts';
import { type Emit, pauseOf } from './emit.ts';
import {
  forgottenAtMs,
  type Opened,
  type OpenWindow,
  type TakeRecord,
  takeFixed,
  takeSession,
  takeSliding,
  type WindowAggregation,
  type WindowUpdate,
} from './open-windows.ts';
import { offer, postponed, release, waitsUntilMs } from './pace.ts';

/** The windows of one key as they are stored. */
interface WindowState<V, S> extends Opened<V, S> {
  /** Early results that are to be handed on with this batch, by record: a list of all would be copied for every record. */
  readonly ready: readonly (readonly WindowUpdate<S>[])[];
}

type Stored<V, S> = readonly OpenWindow<S>[] | (Opened<V, S> & Partial<WindowState<V, S>>);

const isPlain = <V, S>(stored: Stored<V, S>): stored is readonly OpenWindow<S>[] => Array.isArray(stored);

const stateOf = <V, S>(value: unknown): WindowState<V, S> => {
  const stored = (value ?? []) as Stored<V, S>;
  return isPlain(stored) ? { open: stored, ready: [] } : { ready: [], ...stored };
};

/** A list of windows where there is nothing else to say. */
const storedOf = <V, S>({ open, ready, records }: WindowState<V, S>): Stored<V, S> =>
  ready.length === 0 && records === undefined
    ? open
    : { open, ...(ready.length > 0 && { ready }), ...(records && { records }) };

export interface WindowStep<V, S> extends WindowAggregation<V, S> {
  readonly name: string;
  readonly windows: Windows;
  readonly emit: Emit;
}

/**
 * Aggregates by key and window. No result is handed on by the step of a record, only afterwards, as a state that is due: what
 * follows may fail with it or have it refused, and then no record is to blame, and none is missing in the final result.
 */
export const windowNode = <V, S>(step: WindowStep<V, S>): Omit<TopologyNode, 'children'> => {
  const { name, windows, emit, merge } = step;
  if (windows.kind === 'session' && !merge) {
    throw new Error(`${name}: sessions grow together, so the aggregation needs to say how states merge`);
  }
  const state: StateDefinition = { name };
  const pauseMs = pauseOf(emit);
  const take = takerOf(step);
  const closing = new WindowClosing<V, S>(windows, pauseMs ?? 0);
  return {
    kind: 'window',
    label: name,
    state,
    windows,
    emit,
    compile: () => (recordKey, value, at) => {
      const key = keyed(recordKey, state);
      const known = at.run.read(state, key);
      if (!known) return;
      // Counted when it came.
      if (at.origin.isEarly) return at.run.noteMissed(at);
      const { timeMs } = at.origin;
      const { streamTimeMs } = at.task;
      const stored = stateOf<V, S>(known.value);
      // Where there is no pause, nothing waits for its end.
      const before = pauseMs ? closing.withReleased(stored, streamTimeMs) : stored;
      const taken = take(before, { key, value: value as V, timeMs, streamTimeMs });
      if (!taken) return at.run.noteLate(at);
      const after =
        pauseMs === undefined
          ? { ...taken, ready: before.ready }
          : withUpdates(
              { ...taken, ready: before.ready },
              { pauseMs, by: causeOf(name, at), timeMs, streamTimeMs },
            );
      at.run.write({
        place: at.place,
        state,
        key,
        value: storedOf(after),
        dueAtMs: closing.dueAtMs(after),
      });
    },
    onDue: closing,
  };
};

const takerOf = <V, S>(step: WindowStep<V, S>): TakeRecord<V, S> => {
  const { name, windows } = step;
  switch (windows.kind) {
    case 'fixed':
      return takeFixed(windows, step);
    case 'session':
      return takeSession(windows, step);
    case 'sliding':
      return takeSliding(name, windows, step);
  }
};

/** Names the record at hand. One that came as several before this step is several here, too, as with events that are derived. */
const causeOf = (name: string, at: StepContext): string => {
  const { id } = at.origin;
  const source = `early results of ${name} ${id}`;
  const index = at.derivedFrom.get(source) ?? 0;
  at.derivedFrom.set(source, index + 1);
  return index === 0 ? id : `${id} ${index}`;
};

/** Every window that a record has changed is an update, now or when its pause is over. */
const withUpdates = <V, S>(
  { open, changed, ...state }: WindowState<V, S> & { readonly changed: ReadonlySet<OpenWindow<S>> },
  {
    pauseMs,
    by,
    timeMs,
    streamTimeMs: whenMs,
  }: {
    readonly pauseMs: number;
    readonly by: string;
    readonly timeMs: number;
    readonly streamTimeMs: number;
  },
): WindowState<V, S> => {
  const updates: WindowUpdate<S>[] = [];
  const paced = open.map((window) => {
    if (!changed.has(window)) return window;
    const { startMs, endMs, value, pace: before = {} } = window;
    const { passed, pace } = offer(before, { startMs, endMs, value, by, timeMs, whenMs }, pauseMs);
    updates.push(...passed);
    return window.pace || !isEmpty(pace) ? withPace(window, pace) : window;
  });
  return { ...state, open: paced, ready: updates.length === 0 ? state.ready : [...state.ready, updates] };
};

const withPace = <S>(
  { pace: _, ...window }: OpenWindow<S>,
  pace: OpenWindow<S>['pace'] = {},
): OpenWindow<S> => (isEmpty(pace) ? window : { ...window, pace });

const isEmpty = ({ lastMs, waiting, retryAtMs }: NonNullable<OpenWindow<unknown>['pace']>): boolean =>
  lastMs === undefined && waiting === undefined && retryAtMs === undefined;

/** What is handed on of a key when somebody looks. */
interface Due<S> {
  /** Windows that are final. */
  readonly final: ReadonlySet<OpenWindow<S>>;
  readonly early: readonly WindowUpdate<S>[];
  /** The windows as they are with those early results handed on. */
  readonly open: readonly OpenWindow<S>[];
}

class WindowClosing<V, S> implements DueHandler {
  readonly #windows: Windows;
  readonly #pauseMs: number;

  constructor(windows: Windows, pauseMs: number) {
    this.#windows = windows;
    this.#pauseMs = pauseMs;
  }

  /** When there is something to hand on, or to forget. */
  dueAtMs({ open, ready, records = [] }: WindowState<V, S>): number {
    let dueAtMs = Number.POSITIVE_INFINITY;
    for (const window of open) {
      dueAtMs = Math.min(dueAtMs, this.#finalAtMs(window), waitsUntilMs(window.pace ?? {}, this.#pauseMs));
    }
    // All of them are to go now; one says so.
    const [first] = ready[0] ?? [];
    if (first) dueAtMs = Math.min(dueAtMs, first.whenMs);
    // As long as there are windows, records are forgotten when somebody looks at those.
    return open.length > 0 ? dueAtMs : Math.max(...records.map((record) => this.#forgottenAtMs(record)));
  }

  readonly close: DueHandler['close'] = ({ key, value, untilMs, handOn, pass }) => {
    const before = stateOf<V, S>(value);
    const { final, early, open } = this.#dueOf(before, untilMs);
    for (const result of this.#inOrder(key, final, early)) handOn(result);
    // What a window to come would need is gone from then on, though the wall clock may have said so.
    const forgotten = (before.records ?? []).filter((record) => this.#forgottenAtMs(record) <= untilMs);
    for (const record of forgotten) pass(this.#forgottenAtMs(record));
    const records = before.records?.filter((record) => !forgotten.includes(record));
    const left = {
      open: open.filter((window) => !final.has(window)),
      ready: [],
      ...(records && { records }),
    };
    return left.open.length === 0 && (records ?? []).length === 0
      ? undefined
      : { value: storedOf(left), dueAtMs: this.dueAtMs(left) };
  };

  readonly postpone: DueHandler['postpone'] = ({ value, untilMs, toMs }) => {
    const before = stateOf<V, S>(value);
    const { final, early, open } = this.#dueOf(before, untilMs);
    const later = open.map((window): OpenWindow<S> => {
      // The final result says all that its early ones would.
      if (final.has(window)) return { ...withPace(window), retryAtMs: toMs };
      const refused = early.findLast((update) => isOf(update, window));
      return refused ? withPace(window, postponed(window.pace ?? {}, refused, toMs)) : window;
    });
    const postponedState = { ...before, open: later, ready: [] };
    return { value: storedOf(postponedState), dueAtMs: this.dueAtMs(postponedState) };
  };

  /** What has waited long enough by then is to be handed on. */
  withReleased(state: WindowState<V, S>, untilMs: number): WindowState<V, S> {
    return this.#release(state, untilMs, ({ retryAtMs }) => retryAtMs === undefined);
  }

  #release(
    { open, ready: before, ...state }: WindowState<V, S>,
    untilMs: number,
    isMeant: (pace: NonNullable<OpenWindow<S>['pace']>) => boolean,
  ): WindowState<V, S> {
    const updates: WindowUpdate<S>[] = [];
    const after = open.map((window) => {
      const { pace = {} } = window;
      const whenMs = waitsUntilMs(pace, this.#pauseMs);
      // Later than that, the final result says it all.
      if (!isMeant(pace) || whenMs > untilMs || whenMs >= closesAtMs(this.#windows, window)) return window;
      const released = release(pace, untilMs, this.#pauseMs);
      updates.push(...released.passed);
      return withPace(window, released.pace);
    });
    return { ...state, open: after, ready: updates.length === 0 ? before : [...before, updates] };
  }

  /**
   * What was refused before is tried alone: it must not take along what has not been, and least of all a final result, which
   * would be postponed with it for ever.
   */
  #dueOf(state: WindowState<V, S>, untilMs: number): Due<S> {
    const fresh = this.withReleased(state, untilMs);
    const final = new Set(fresh.open.filter((window) => this.#finalAtMs(window) <= untilMs));
    const { open, ready } =
      fresh.ready.length + final.size > 0 ? fresh : this.#release(fresh, untilMs, () => true);
    return { final, early: ready.flat(), open };
  }

  /** As they came to be: a window is final before the record that ends its time is in another. */
  #inOrder(
    key: string,
    final: ReadonlySet<OpenWindow<S>>,
    early: readonly WindowUpdate<S>[],
  ): readonly FinalResult[] {
    const results = [
      ...[...final].map((window) => {
        const timeMs = closesAtMs(this.#windows, window);
        return {
          whenMs: timeMs,
          result: { name: nameOf(window), timeMs, value: windowed(key, window, true) },
        };
      }),
      ...early.map((update) => ({
        whenMs: update.whenMs,
        result: earlyResult(key, update),
      })),
    ];
    return results.sort((a, b) => a.whenMs - b.whenMs).map(({ result }) => result);
  }

  #finalAtMs(window: OpenWindow<S>): number {
    return Math.max(closesAtMs(this.#windows, window), window.retryAtMs ?? Number.NEGATIVE_INFINITY);
  }

  #forgottenAtMs(record: { readonly timeMs: number }): number {
    return this.#windows.kind === 'sliding' ? forgottenAtMs(this.#windows, record) : Number.POSITIVE_INFINITY;
  }
}

const earlyResult = <S>(key: string, update: WindowUpdate<S>): FinalResult => ({
  // Of many results nobody asks for the id, which it is part of.
  get name() {
    return `${nameOf(update)} early ${update.by}`;
  },
  timeMs: update.timeMs,
  streamTimeMs: update.whenMs,
  value: windowed(key, update, false),
});

interface Bounds {
  readonly startMs: number;
  readonly endMs: number;
}

const nameOf = ({ startMs, endMs }: Bounds): string => `${startMs} ${endMs}`;

const isOf = (update: Bounds, window: Bounds): boolean =>
  update.startMs === window.startMs && update.endMs === window.endMs;

const windowed = <S>(
  key: string,
  { startMs, endMs, value }: Bounds & { readonly value: S },
  isFinal: boolean,
): Windowed<S> => ({ key, startMs, endMs, value, isFinal });
