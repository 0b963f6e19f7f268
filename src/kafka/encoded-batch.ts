import { batchHeaderSize } from './batch-layout.ts';
import {
  encodeRecordBatch,
  type OutgoingRecord,
  type ProducerState,
  sealRecordBatch,
  sizeInBatch,
} from './record-batch.ts';

export type BatchState =
  | { readonly kind: 'not-sent' }
  | { readonly kind: 'sent' }
  | { readonly kind: 'acknowledged' }
  | { readonly kind: 'failed'; readonly reason: string; readonly isRefused: boolean };

/** Records of one partition that go to its leader as one batch. Measured while it is filled, encoded when it is needed. */
export class EncodedBatch {
  readonly topic: string;
  readonly partition: number;
  readonly positions: number[] = [];
  bytes = batchHeaderSize;
  state: BatchState = { kind: 'not-sent' };
  readonly #records: readonly OutgoingRecord[];
  readonly #sizes: number[] = [];
  #encoded: Buffer | undefined;

  constructor(target: { topic: string; partition: number; records: readonly OutgoingRecord[] }) {
    this.topic = target.topic;
    this.partition = target.partition;
    this.#records = target.records;
  }

  /** kafkajs takes this object for an array of messages and counts its sequence numbers on by the length. */
  get length(): number {
    return this.positions.length;
  }

  bytesWith(recordSize: number): number {
    return this.bytes + sizeInBatch(recordSize, this.length);
  }

  add(record: { position: number; size: number }): void {
    this.bytes = this.bytesWith(record.size);
    this.positions.push(record.position);
    this.#sizes.push(record.size);
  }

  /** May be called ahead of time; the second call costs nothing. */
  encode(): Buffer {
    this.#encoded ??= encodeRecordBatch({
      records: this.#records,
      positions: this.positions,
      sizes: this.#sizes,
      bytes: this.bytes,
      timestampMs: Date.now(),
    });
    return this.#encoded;
  }

  seal(state: ProducerState): Buffer {
    const encoded = this.encode();
    sealRecordBatch(encoded, state);
    return encoded;
  }

  /** The bytes are not needed any more; where the records stand still is. */
  release(): void {
    this.#encoded = undefined;
  }
}
