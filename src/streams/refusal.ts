import type { ComputedBatch, Condemned, PlaceInput } from './compute-batch.ts';
import { halve } from './halve.ts';
import type { AppliedOffset } from './lane.ts';
import type { OwnedPlace, OwnedTask } from './place-tail.ts';
import { RefusedData } from './ports.ts';
import { closedMax } from './window-closer.ts';

/** What a lane can do with the inputs that the database has refused. */
export interface RefusalOptions {
  readonly closesWindows: boolean;
  /** Whether steps hold records, which go on with another one. */
  readonly holdsRecords: boolean;
  /** Computes what is still to be done of the inputs, and commits it; comes back here when that is refused, too. */
  readonly settle: (
    inputs: readonly PlaceInput[],
    condemned?: Condemned,
  ) => Promise<readonly AppliedOffset[]>;
  readonly compute: (inputs: readonly PlaceInput[]) => Promise<ComputedBatch>;
  readonly commit: (computed: ComputedBatch) => Promise<readonly AppliedOffset[]>;
  readonly reload: () => Promise<void>;
  readonly isCurrent: (input: PlaceInput) => boolean;
  readonly hasDue: (task: OwnedTask, wallClockMs: number) => Promise<boolean>;
}

/** Finds the one record or window that the database refuses, so that nothing else is held back by it. */
export class Refusal {
  readonly #options: RefusalOptions;

  constructor(options: RefusalOptions) {
    this.#options = options;
  }

  /** The database refused something in these inputs: halved until the record that it is about stands alone. */
  async settle(
    inputs: readonly PlaceInput[],
    refused: RefusedData,
    condemned?: Condemned,
  ): Promise<readonly AppliedOffset[]> {
    if (condemned) throw new Error('The database refuses a record that was set aside', { cause: refused });
    const { settle, closesWindows } = this.#options;
    if (closesWindows && inputs.some(closesSome)) return this.#settleWithoutWindows(inputs);
    const halves = halve(inputs);
    if (halves) {
      const [first, second] = halves;
      const applied = await settle(first);
      return [...applied, ...(await settle(second))];
    }
    const [only] = inputs;
    if (this.#options.holdsRecords && only && !only.closing?.keepsHeld) return this.#settleAlone(only);
    const [record] = inputs.flatMap(({ records }) => records);
    if (!record) throw new Error('The database refuses a batch without records', { cause: refused });
    // It may be what a timer did that was due before the record: then the record is not to blame.
    const [alone] = closesWindows ? inputs : [];
    if (alone && !alone.closing?.postponesTimers)
      return settle([{ ...alone, closing: { ...alone.closing, statesMax: 0, postponesTimers: true } }]);
    return settle(inputs, new Map([[record, refused]]));
  }

  /** It may be a record that was held and goes on with this one: this one goes first, and then they do, one by one. */
  async #settleAlone(input: PlaceInput): Promise<readonly AppliedOffset[]> {
    const applied = await this.#options.settle([
      { ...input, closing: { ...input.closing, statesMax: 0, keepsHeld: true } },
    ]);
    await this.#closeWindows(input.owned, input.wallClockMs);
    return applied;
  }

  /** It may be the result of a window that is refused, and then no record is to blame: those go first, without any window. */
  async #settleWithoutWindows(inputs: readonly PlaceInput[]): Promise<readonly AppliedOffset[]> {
    const applied = await this.#options.settle(
      inputs
        .filter(({ records, wallClockMs }) => records.length > 0 || wallClockMs === undefined)
        .map((input) => ({ ...input, closing: { statesMax: 0 } })),
    );
    const tasks = new Map(inputs.map(({ owned, wallClockMs }) => [owned.task, { owned, wallClockMs }]));
    for (const { owned, wallClockMs } of tasks.values()) await this.#closeWindows(owned, wallClockMs);
    return applied;
  }

  /** Fewer and fewer windows at once, until the one that is refused stands alone: it is kept, and tried again later. */
  async #closeWindows(owned: OwnedPlace, wallClockMs = Number.NEGATIVE_INFINITY): Promise<void> {
    const { compute, commit, reload, isCurrent, hasDue } = this.#options;
    const { task } = owned;
    for (let statesMax = closedMax; ; ) {
      const tick = tickOf(owned, wallClockMs);
      if (!isCurrent(tick) || !(await hasDue(task, tick.wallClockMs))) return;
      const computed = await compute([{ ...tick, closing: { statesMax } }]);
      try {
        await commit(computed);
        statesMax = Math.min(closedMax, statesMax * 2);
      } catch (error) {
        if (!(error instanceof RefusedData)) throw error;
        await reload();
        if (computed.closed > 1) statesMax = Math.ceil(computed.closed / 2);
        else await this.#postponeWindow(owned, tick.wallClockMs, error);
      }
    }
  }

  async #postponeWindow(owned: OwnedPlace, wallClockMs: number, refused: RefusedData): Promise<void> {
    const { compute, commit } = this.#options;
    const closing = { statesMax: 1, refused };
    await commit(await compute([{ ...tickOf(owned, wallClockMs), closing }]));
  }
}

/** No records: only what the wall clock closes. */
export const tickOf = (
  owned: OwnedPlace,
  wallClockMs: number,
): PlaceInput & { readonly wallClockMs: number } => {
  const { offset = 0 } = owned.tail;
  return { owned, epoch: owned.epoch, fromOffset: offset, records: [], nextOffset: offset, wallClockMs };
};

const closesSome = ({ closing }: PlaceInput): boolean => closing?.statesMax !== 0;
