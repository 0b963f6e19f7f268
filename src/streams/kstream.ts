import type { OperatorFunction } from 'rxjs';
import type { StreamRecord } from './graph.ts';
import type { ForeignKeyJoinOptions } from './joins/foreign-key-join.ts';
import type { StreamJoinOptions } from './joins/stream-join.ts';
import type { WaitForRow } from './joins/wait-for-row.ts';
import type { Fact } from './ports.ts';
import type { StepOptions } from './step-name.ts';
import type { CounterTable, RowTable } from './tables.ts';
import type { ExpiryOptions } from './timers/expiring-state.ts';
import type { Processor } from './timers/processor.ts';
import type { AtMostEvery, Emit } from './windowing/emit.ts';
import type { FixedWindows, Windows } from './windows.ts';

/** Says which topic a stream comes from and what its records are. */
export interface StreamOf<V> {
  readonly topic: string;
  /** What its keys are, "orderId" for example: sides of a join that say so must say the same. */
  readonly key?: string;
  /** Never set: it only carries the type. */
  readonly value?: V;
}

/** Where derived events go; `make` turns a value of the stream into what the destination takes. */
export interface Destination<E> {
  readonly name: string;
  readonly event?: E;
}

export interface DeriveOptions {
  /** Part of the ids of what is derived, beside the topology's name; the destination's name unless told. */
  readonly name?: string;
}

/** A stream of records, each with a key. Functions given to it are pure: a batch may run through them more than once. */
export interface KStream<V> {
  filter<Narrowed extends V>(keep: (value: V) => value is Narrowed, options?: StepOptions): KStream<Narrowed>;
  filter(keep: (value: V) => boolean, options?: StepOptions): KStream<V>;
  map<R>(change: (value: V) => R, options?: StepOptions): KStream<R>;
  flatMap<R>(change: (value: V) => readonly R[], options?: StepOptions): KStream<R>;
  /** Each record goes to the first branch that takes it, or to none. */
  branch<Name extends string>(
    branches: Readonly<Record<Name, (value: V) => boolean>>,
  ): Readonly<Record<Name, KStream<V>>>;
  merge(other: KStream<V>): KStream<V>;
  /** Looks at values without changing anything, once per record, after its batch is committed. */
  peek(look: (value: V) => void, options?: StepOptions): KStream<V>;
  /**
   * Any RxJS operators. They see the records of one batch and partition, and then the end of the stream. Records that
   * come out keep the key (and, where they stand for one that went in, the id) that they had.
   */
  pipe<R>(name: string, only: OperatorFunction<StreamRecord<V>, StreamRecord<R>>): KStream<R>;
  pipe<A, R>(
    name: string,
    first: OperatorFunction<StreamRecord<V>, A>,
    last: OperatorFunction<A, StreamRecord<R>>,
  ): KStream<R>;
  pipe<A, B, R>(
    name: string,
    first: OperatorFunction<StreamRecord<V>, A>,
    second: OperatorFunction<A, B>,
    last: OperatorFunction<B, StreamRecord<R>>,
  ): KStream<R>;
  pipe<A, B, C, R>(
    name: string,
    first: OperatorFunction<StreamRecord<V>, A>,
    second: OperatorFunction<A, B>,
    third: OperatorFunction<B, C>,
    last: OperatorFunction<C, StreamRecord<R>>,
  ): KStream<R>;
  /**
   * Hands on each key's records in the order of their versions, from 1 without gaps: what comes too early is kept until
   * what is missing has come; what comes again is dropped.
   */
  inOrder(name: string, options: { version: (value: V) => number; heldMax?: number }): KStream<V>;
  /**
   * Hands on the latest record of each key, so often at most: those in between are left out, the last one always comes, by the
   * time of the stream, or by the wall clock when the stream is quiet. Records keep their ids and times.
   */
  suppress(name: string, every: AtMostEvery): KStream<V>;
  groupByKey(): KGroupedStream<V>;
  /** By another key, for counts: adding commutes, so they need not be where that key lives. */
  groupBy(key: (value: V) => string, options?: StepOptions): KCountableStream<V>;
  /** By another key, for everything: the records go to that key's partition, through the outbox and a topic. */
  groupBy(key: (value: V) => string, options: { through: string }): KGroupedStream<V>;
  /**
   * By another key, as a stream: the records go to that key's partition, through the outbox and a topic. `keyedBy` says
   * what the new key is, for joins to compare.
   */
  selectKey(key: (value: V) => string, options: { through: string; keyedBy?: string }): KStream<V>;
  /** The latest value of each key; null takes the key's row away. */
  toTable(name: string, options: TableOptions & ExpiryOptions): KTable<NonNullable<V>, V | null>;
  toTable(name: string, options?: TableOptions): KTable<NonNullable<V>, V>;
  /**
   * A step of one's own: for each record with its key's store, its metadata, and timers by the time of the stream or by the wall
   * clock. What it forwards keeps the record's key, id and time.
   */
  process<S, R>(name: string, processor: Processor<V, S, R>): KStream<R>;
  /**
   * With the row of a global table that has the key that is asked for, whatever partition that is in; records without one are
   * left out. It is the row of some recent moment: not that of the record's time, and perhaps another one in a rebuild.
   * `wait` lets records without a row wait a while for it, and what comes behind them of their key.
   */
  join<T, R>(
    table: GlobalKTable<T>,
    keyOf: (value: V) => string | null,
    combine: (value: V, row: T) => R,
    wait?: WaitForRow,
  ): KStream<R>;
  /** With the table's row of the same key; records without one are left out. */
  join<T, R>(table: KTable<T, unknown>, combine: (value: V, row: T) => R): KStream<R>;
  /**
   * With every record of the other stream that has the same key and lies in the window; a pair happened when the later of
   * the two did. Its id follows from both, however they come.
   */
  join<O, R>(other: KStream<O>, combine: (value: V, other: O) => R, options: StreamJoinOptions): KStream<R>;
  leftJoin<T, R>(
    table: GlobalKTable<T>,
    keyOf: (value: V) => string | null,
    combine: (value: V, row: T | undefined) => R,
    wait?: WaitForRow,
  ): KStream<R>;
  leftJoin<T, R>(table: KTable<T, unknown>, combine: (value: V, row: T | undefined) => R): KStream<R>;
  /** As `join`; a record that meets nobody comes alone, once, when its window and the grace are over, with that time. */
  leftJoin<O, R>(
    other: KStream<O>,
    combine: (value: V, other: O | undefined) => R,
    options: StreamJoinOptions,
  ): KStream<R>;
  /** As `leftJoin`, for the records of both sides. */
  outerJoin<O, R>(
    other: KStream<O>,
    combine: (value: V | undefined, other: O | undefined) => R,
    options: StreamJoinOptions,
  ): KStream<R>;
  /**
   * Derives an event per record, with an id that follows from the record's: it is appended to the outbox in the transaction of
   * the batch. Two steps with one destination need names.
   */
  to<E>(destination: Destination<E>, make: (value: V) => E, options?: DeriveOptions): void;
  /** Does something outside for the values of a batch before its checkpoint moves. May be repeated: must be harmless. */
  call(name: string, perform: (values: readonly V[]) => Promise<void>): void;
}

export interface CountOptions<V> {
  /** What the count means, as the list of handled events shows it. */
  readonly action: string;
  /** The business fact that counts once, where several events could tell of it. Without it every event counts once. */
  readonly once?: (value: V) => Omit<Fact, 'action'>;
}

/** Records by some key: what can be counted. */
export interface KCountableStream<V> {
  count<Column extends string>(
    into: CounterTable<Column>,
    column: NoInfer<Column>,
    options: CountOptions<V>,
  ): void;
  sum<Column extends string>(
    into: CounterTable<Column>,
    column: NoInfer<Column>,
    by: (value: V) => number,
    options: CountOptions<V>,
  ): void;
  /** Makes sure that the key has its row, with every count at zero to begin with. */
  toRow(into: CounterTable): void;
  windowedBy(windows: FixedWindows): KWindowedCounts<V>;
}

export interface KWindowedCounts<V> {
  count<Column extends string>(
    into: CounterTable<Column>,
    column: NoInfer<Column>,
    options: CountOptions<V>,
  ): void;
  sum<Column extends string>(
    into: CounterTable<Column>,
    column: NoInfer<Column>,
    by: (value: V) => number,
    options: CountOptions<V>,
  ): void;
}

export interface Aggregation<V, S> {
  readonly initial: S;
  /** Returns a new state; states are JSON values and never changed in place. */
  readonly fold: (state: S, value: V, key: string) => S;
}

/** Where a table's rows lie, and for how long. */
export interface TableOptions extends Partial<ExpiryOptions> {
  /** A read model of its own, with the row's fields as columns. */
  readonly table?: RowTable;
}

/** Records by their own key, in the partition where that key lives. */
export interface KGroupedStream<V> extends KCountableStream<V> {
  reduce(name: string, combine: (state: V, value: V) => V, options: ExpiryOptions): KTable<V, V | null>;
  reduce(name: string, combine: (state: V, value: V) => V): KTable<V>;
  aggregate<S>(name: string, options: Aggregation<V, S> & TableOptions & ExpiryOptions): KTable<S, S | null>;
  aggregate<S>(name: string, options: Aggregation<V, S> & TableOptions): KTable<S>;
  windowedBy(windows: Windows): KWindowedStream<V>;
}

/** A window when it is final, or what it is so far. */
export interface Windowed<S> {
  readonly key: string;
  readonly startMs: number;
  /** Part of sliding windows, and not of fixed ones; a session ends one gap after its last record. */
  readonly endMs: number;
  readonly value: S;
  /** Whether nothing more comes of this window. */
  readonly isFinal: boolean;
}

export interface KWindowedAggregation<V> {
  /** Sessions that a record brings together are merged, and handed on under their new bounds from then on. */
  aggregate<S>(
    name: string,
    options: Aggregation<V, S> & { readonly merge?: (first: S, second: S) => S },
  ): KStream<Windowed<S>>;
}

/**
 * Emits each window once, when it is final, unless told otherwise: by the time of the stream, or by the wall clock when the
 * stream is quiet.
 */
export interface KWindowedStream<V> extends KWindowedCounts<V>, KWindowedAggregation<V> {
  /**
   * Besides the final result, hands on what a window is so far. An early result has an id of its own, which follows from the
   * window and the record that made it so. One that cannot be handed on is tried again as the latest of its window, or left
   * to the final result.
   */
  emit(when: Emit): KWindowedAggregation<V>;
}

/** A small table that every process has whole. Streams look rows of any key up in it. */
export interface GlobalKTable<R> {
  readonly name: string;
  readonly isGlobal: true;
  /** Never set: it only carries the type. */
  readonly row?: R;
}

/** The latest state of each key. */
export interface KTable<S, Change = S> {
  readonly name: string;
  /** The rows that are kept; a row that is not any more is gone, as a change to null. Nothing is stored a second time. */
  filter(keep: (row: S) => boolean, options?: { readonly name?: string }): KTable<S, S | null>;
  /** The same keys with other rows. */
  mapValues<R>(change: (row: S) => R, options?: { readonly name?: string }): KTable<R, R | null>;
  /** A table of what both sides have under one key, kept under a name of its own; a side that goes takes the row with it. */
  join<O, R>(
    other: KTable<O, unknown>,
    combine: (row: S, other: O) => R,
    options: { readonly name: string },
  ): KTable<R, R | null>;
  /**
   * With the row of the other table that each row refers to, wherever that lies; null refers to none. A change on either side
   * changes the joined rows; what has to cross partitions goes `through` the outbox and a topic, so that a joined row is up to
   * date a moment later, and never older than it was.
   */
  join<O, R>(
    other: KTable<O, unknown>,
    foreignKey: (row: S) => string | null,
    combine: (row: S, other: O) => R,
    options: ForeignKeyJoinOptions,
  ): KTable<R, R | null>;
  leftJoin<O, R>(
    other: KTable<O, unknown>,
    combine: (row: S, other: O | undefined) => R,
    options: { readonly name: string },
  ): KTable<R, R | null>;
  leftJoin<O, R>(
    other: KTable<O, unknown>,
    foreignKey: (row: S) => string | null,
    combine: (row: S, other: O | undefined) => R,
    options: ForeignKeyJoinOptions,
  ): KTable<R, R | null>;
  outerJoin<O, R>(
    other: KTable<O, unknown>,
    combine: (row: S | undefined, other: O | undefined) => R,
    options: { readonly name: string },
  ): KTable<R, R | null>;
  /** The table's changes as they happen; null, where there is one, says that a row is gone. */
  toStream(): KStream<Change>;
  /** The latest change of each row, so often at most. */
  suppress(name: string, every: AtMostEvery): KStream<Change>;
}
