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
}

/** Where a stateful step keeps what it knows, one value per key. Its name is given, not generated: state survives a refactoring. */
export interface StateDefinition {
  readonly name: string;
  /** Without it the values are kept as JSON in a table that all projections share. */
  readonly table?: RowTable;
  /** Set where every process has a copy, with how many values that may be: stores can tell what has changed. */
  readonly rowsMax?: number;
}

/** A state that every process has a copy of. */
export type GlobalState = Omit<StateDefinition, 'table'> & { readonly rowsMax: number };
