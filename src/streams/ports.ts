import type { RawBatch, RawRecord } from './record-source.ts';
import type { Effect, StreamRecord } from './topology.ts';

/** Where a batch comes from and what it does; committed whole or not at all. */
export interface BatchCommit {
  readonly projection: string;
  readonly topic: string;
  readonly partition: number;
  /** Where the checkpoint must stand for this batch to be the next one; undefined when there is none yet. */
  readonly expectedOffset: number | undefined;
  readonly nextOffset: number;
  readonly effects: readonly Effect[];
}

/** Keeps tables, handled keys and checkpoints, all in one transaction. */
export interface StateStore {
  loadCheckpoint(projection: string, topic: string, partition: number): Promise<number | undefined>;
  /** False when the checkpoint stands elsewhere: somebody else has this partition now. */
  commit(batch: BatchCommit): Promise<boolean>;
}

/** A record that can never be processed, and why. */
export interface PoisonRecord {
  readonly record: RawRecord;
  readonly error: Error;
}

export interface DecodedBatch {
  readonly records: readonly StreamRecord<unknown>[];
  readonly poison: readonly PoisonRecord[];
}

/** Turns bytes into values. Throws only when trying again may help; bad bytes come back as poison. */
export interface RecordDecoder {
  decode(batch: RawBatch): Promise<DecodedBatch>;
}

/** Keeps what cannot be processed. Resolves once it is safe. */
export interface DeadLetters {
  send(batch: RawBatch, poison: readonly PoisonRecord[], projection: string): Promise<void>;
}
