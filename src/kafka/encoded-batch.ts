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

/** A way to a broker. */
export interface Carrier {
  /** Ends it at once, with what has not left yet. */
  cut(): void;
}

/** Nobody wants this batch to be sent any more. kafkajs looks at the property and does not try again. */
export class BatchRevoked extends Error {
  override readonly name = 'BatchRevoked';
  readonly retriable = false;
}

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
  readonly #carriers = new Set<Carrier>();
  #isRevoked = false;

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

  /** The bytes for one try to send them. */
  seal(state: ProducerState, carrier: Carrier): Buffer {
    if (this.#isRevoked) throw new BatchRevoked(`The batch for ${this.topic} is not to be sent any more`);
    this.#carriers.add(carrier);
    const encoded = this.encode();
    sealRecordBatch(encoded, state);
    return encoded;
  }

  /** From now on nothing of it is sent: not by another try, and not what still waits on the way to a broker. */
  revoke(): void {
    this.#isRevoked = true;
    for (const carrier of this.#carriers) carrier.cut();
    this.#carriers.clear();
  }

  /** The bytes are not needed any more; where the records stand still is. */
  release(): void {
    this.#encoded = undefined;
  }
}
