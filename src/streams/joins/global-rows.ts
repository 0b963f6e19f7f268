import type { KnownState } from '../batch-run.ts';
import type { ChangedRows } from '../ports.ts';
import type { GlobalState } from '../tables.ts';

/** How old a copy may be when a batch is computed. */
export const refreshEveryMs = 1000;

/** A copy that nobody has looked into for so long is read anew: stores need not tell for ever of what is gone. */
const readAnewAfterMs = 3_600_000;

/** Reads the rows of a table, or what has changed of them. */
export type LoadChanged = (request: {
  readonly state: GlobalState;
  readonly since: string | undefined;
  readonly rowsMax: number;
}) => Promise<ChangedRows>;

/**
 * Copies of tables that every process has whole. What the store has is what counts: a copy is filled before the first batch,
 * follows what has changed about once a second, and is thrown away with everything else that a lane has in memory.
 */
export class GlobalRows {
  readonly #copies: ReadonlyMap<string, Copy>;

  constructor(states: readonly GlobalState[]) {
    this.#copies = new Map(states.map((state) => [state.name, new Copy(state)]));
  }

  has(state: string): boolean {
    return this.#copies.has(state);
  }

  /** Undefined: the copy has no such row, and whether the store has one is to be asked. */
  find(state: string, key: string): KnownState | undefined {
    return this.#copies.get(state)?.find(key);
  }

  /** What the store answered when it was asked for a key. */
  keep(state: string, key: string, known: KnownState): void {
    this.#copies.get(state)?.keep(key, known);
  }

  /** What this process has just committed. */
  commit(state: string, key: string, known: KnownState): void {
    this.#copies.get(state)?.commit(key, known);
  }

  /** Between two batches only, so that a batch is computed on the rows of one moment. */
  async refresh(load: LoadChanged, nowMs: number): Promise<void> {
    for (const copy of this.#copies.values()) await copy.refresh(load, nowMs);
  }
}

class Copy {
  readonly #state: GlobalState;
  #rows = new Map<string, KnownState>();
  /** Keys that the store had no row of when it was asked, since the last refresh. */
  readonly #absent = new Map<string, KnownState>();
  /** Committed by this process, since the last refresh: a copy that has not seen it yet must not hide it. */
  readonly #own = new Map<string, KnownState>();
  #upTo: string | undefined;
  #refreshedMs = Number.NEGATIVE_INFINITY;

  constructor(state: GlobalState) {
    this.#state = state;
  }

  find(key: string): KnownState | undefined {
    return this.#own.get(key) ?? this.#rows.get(key) ?? this.#absent.get(key);
  }

  keep(key: string, known: KnownState): void {
    (known.value === undefined ? this.#absent : this.#rows).set(key, known);
  }

  commit(key: string, known: KnownState): void {
    this.#own.set(key, known);
  }

  async refresh(load: LoadChanged, nowMs: number): Promise<void> {
    if (this.#upTo !== undefined && nowMs - this.#refreshedMs < refreshEveryMs) return;
    if (nowMs - this.#refreshedMs >= readAnewAfterMs) this.#upTo = undefined;
    // What is committed while the store is asked may not be in its answer.
    const seen = [...this.#own];
    await this.#load(load);
    for (const [key, known] of seen) if (this.#own.get(key) === known) this.#own.delete(key);
    this.#absent.clear();
    this.#refreshedMs = nowMs;
    const { name, rowsMax } = this.#state;
    if (this.#rows.size > rowsMax) {
      this.#upTo = undefined;
      throw new TooManyRows(name, rowsMax);
    }
  }

  async #load(load: LoadChanged): Promise<void> {
    const state = this.#state;
    // One more than there may be tells that there are too many; of a table without bounds it is all that is ever read.
    const limit = state.rowsMax + 1;
    if (this.#upTo !== undefined) {
      const { rows, upTo } = await load({ state, since: this.#upTo, rowsMax: limit });
      if (rows.length < limit) {
        for (const { key, value } of rows) {
          if (value === undefined) this.#rows.delete(key);
          else this.#rows.set(key, { value });
        }
        this.#upTo = upTo;
        return;
      }
    }
    const { rows, upTo } = await load({ state, since: undefined, rowsMax: limit });
    this.#rows = new Map(rows.map(({ key, value }) => [key, { value }]));
    this.#upTo = upTo;
  }
}

export class TooManyRows extends Error {
  override readonly name = 'TooManyRows';
  constructor(table: string, rowsMax: number) {
    super(
      `The global table ${table} has more than ${rowsMax} rows, and every process keeps all of them in memory. Raise its ` +
        'rowsMax if there is room for them; otherwise join by a foreign key: table.join(other, foreignKey, combine, { name, through })',
    );
  }
}
