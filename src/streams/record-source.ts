/** A record as the broker has it: bytes and where they stand. */
export interface RawRecord {
  readonly offset: number;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, Buffer | string | (Buffer | string)[] | undefined>>;
  readonly timestampMs: number;
}

export interface RawBatch {
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly RawRecord[];
  /** The offset to read next once this batch is applied. */
  readonly nextOffset: number;
}

export type BatchOutcome =
  | { readonly kind: 'applied'; readonly nextOffset: number }
  /** The state says another place is next: read from there. */
  | { readonly kind: 'seek'; readonly offset: number }
  /** The partition was taken away or the process is stopping; whoever has it next starts at the checkpoint. */
  | { readonly kind: 'abandoned' };

export interface BatchControl {
  /** Tells the broker that we are alive while a batch takes long. */
  heartbeat(): Promise<void>;
  /** False once the partition belongs to somebody else or the source is stopping. */
  isCurrent(): boolean;
}

export type BatchHandler = (batch: RawBatch, control: BatchControl) => Promise<BatchOutcome>;

/** Where records come from, partition by partition, each in order. */
export interface RecordSource {
  start(handle: BatchHandler): Promise<void>;
  stop(): Promise<void>;
  /** Settles with the reason when the source has given up for good. */
  readonly failed: Promise<Error>;
}
