/** Which time a timer goes by. */
export type TimerClock =
  /** The time of the stream alone: in a quiet stream it waits. */
  | 'stream-time'
  /**
   * The wall clock, as far as nothing older is on its way to the topics. Of one key, timers and records come in the order of
   * their times, also where a model is filled from the beginning.
   */
  | 'wall-clock';

export interface TimerSetting {
  /** One timer per key and name: setting it again replaces it. */
  readonly name: string;
  readonly atMs: number;
  readonly by: TimerClock;
}

/** A timer whose time has come. */
export interface FiredTimer extends TimerSetting {
  readonly key: string;
}

/** Where a record comes from. */
export interface RecordMetadata {
  /** The event's id, or that of what a window, a join or a timer has made. */
  readonly id: string;
  /** When it happened. */
  readonly timeMs: number;
  /** Its time lies too far in the future to be believed: it is in no window, moves no clock and fires no timer. */
  readonly isEarly: boolean;
  readonly topic: string;
  readonly partition: number;
  /** Undefined where it is not one record of the topic: behind windows, joins, timers, RxJS operators, or held by `inOrder`. */
  readonly offset: number | undefined;
  /** Read from the record's bytes when they are asked for; empty where there is no offset. */
  readonly headers: Readonly<Record<string, Buffer>>;
}

export interface ProcessedRecord<V> {
  readonly key: string;
  readonly value: V;
  readonly metadata: RecordMetadata;
}

/** What a step knows of one key. Values are JSON, and never changed in place. */
export interface KeyStore<S> {
  get(): S | undefined;
  put(value: S): void;
  delete(): void;
}

/** What a processor may do, for the key of its record or timer. */
export interface ProcessorContext<S, R> {
  readonly store: KeyStore<S>;
  /** How far the stream has come, with the record or timer at hand. −Infinity while every record so far was early. */
  readonly streamTimeMs: number;
  /** Hands a value on, under the same key. What comes of a timer happened when the timer was due. */
  forward(value: R): void;
  schedule(timer: TimerSetting): void;
  cancel(name: string): void;
}

/** Both functions are pure: they may run more than once, and what they do counts once. */
export interface Processor<V, S, R> {
  onRecord(record: ProcessedRecord<V>, context: ProcessorContext<S, R>): void;
  /** Before any record of its key that the time of the timer has come for. One that throws is tried again a minute later. */
  onTimer?(timer: FiredTimer, context: ProcessorContext<S, R>): void;
  /**
   * How long after the last `put` what is stored for a key goes away, by the time of the stream, or by the wall clock when the
   * stream is quiet. Timers stay.
   */
  readonly expireAfterMs?: number;
}
