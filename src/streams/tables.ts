/** A table that a topology adds to: one row per key (and window), one column per count. Adding commutes, so any partition may. */
export interface CounterTable<Column extends string = string> {
  readonly table: string;
  readonly keyColumn: string;
  /** Set for counts by window: the timestamptz column with the window's start. */
  readonly windowColumn?: string;
  readonly columns: readonly Column[];
}

/** What a batch adds to one row. */
export interface CounterRow {
  readonly key: string;
  /** Only where the table has windows. */
  readonly windowStartMs?: number;
  /** In the order of the table's columns; all zero only makes sure that the row is there. */
  readonly amounts: readonly number[];
}

export interface TableDelta {
  readonly table: CounterTable;
  readonly rows: readonly CounterRow[];
}

/** A read model with a row per key, written whole: the state of an aggregation in columns that queries can use. */
export interface RowTable {
  readonly table: string;
  readonly keyColumn: string;
  /** Columns besides the key. A state is an object with these as its fields, each a JSON value that the column takes. */
  readonly columns: readonly string[];
  /**
   * Those of the columns that timers by the wall clock write. A model that is being rebuilt has no clock, and catches up with it
   * once it is live: they are not compared before that.
   */
  readonly clockColumns?: readonly string[];
  /** One of them, a timestamptz: from then on the row goes away, as soon as somebody looks at the clock. */
  readonly expiryColumn?: string;
}

/** Where a stateful step keeps what it knows, one value per key. Its name is given, not generated: state survives a refactoring. */
export interface StateDefinition {
  readonly name: string;
  /** Without it the values are kept as JSON in a table that all projections share. */
  readonly table?: RowTable;
  /** How long after its last change a value goes away; it is then as if it had never been. */
  readonly expireAfterMs?: number;
  /** For a state that expires and has a table of its own: where the times are kept at which its rows are over. */
  readonly expiry?: StateDefinition;
  /** Set where every process has a copy, with how many values that may be: stores can tell what has changed. */
  readonly rowsMax?: number;
}

/** A state that every process has a copy of. */
export type GlobalState = Omit<StateDefinition, 'table'> & { readonly rowsMax: number };
