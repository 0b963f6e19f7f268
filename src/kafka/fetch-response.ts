import type { AbortedTransaction } from './aborted-transactions.ts';
import { readInt64 } from './batch-layout.ts';

/** What a broker answered for one partition. */
export interface FetchedPartition {
  readonly topic: string;
  readonly partition: number;
  readonly errorCode: number;
  /** The end of the log, as far as all replicas in sync have it. */
  readonly highWatermark: number;
  /** The end of what may be read: records behind it belong to transactions that are open. */
  readonly lastStableOffset: number;
  readonly aborted: readonly AbortedTransaction[];
  /** Record batches as the broker has them; the last one may be cut off. */
  readonly recordSet: Buffer;
}

export interface FetchResponse {
  readonly throttleMs: number;
  readonly errorCode: number;
  readonly partitions: readonly FetchedPartition[];
}

/** The version of the answer that is understood here: kafkajs's newest, which brokers know since 2.3. */
export const fetchVersion = 11;

/**
 * throttle time 4 · error 2 · session 4 · topics (name · partitions (number 4 · error 2 · high watermark 8 · last stable
 * offset 8 · log start offset 8 · aborted transactions (producer id 8 · first offset 8) · preferred replica 4 · records))
 */
export const decodeFetchResponse = (answer: Buffer): FetchResponse => {
  const cursor = new FieldReader(answer);
  const throttleMs = cursor.int32();
  const errorCode = cursor.int16();
  cursor.skip(4);
  const partitions: FetchedPartition[] = [];
  for (let topics = cursor.int32(); topics > 0; topics--) {
    const topic = cursor.text();
    for (let left = cursor.int32(); left > 0; left--) partitions.push(decodePartition(cursor, topic));
  }
  return { throttleMs, errorCode, partitions };
};

const decodePartition = (cursor: FieldReader, topic: string): FetchedPartition => {
  const partition = cursor.int32();
  const errorCode = cursor.int16();
  const highWatermark = cursor.int64();
  const lastStableOffset = cursor.int64();
  cursor.skip(8);
  const aborted: AbortedTransaction[] = [];
  for (let left = cursor.int32(); left > 0; left--) {
    aborted.push({ producerId: cursor.int64(), firstOffset: cursor.int64() });
  }
  cursor.skip(4);
  const recordSet = cursor.bytes();
  return { topic, partition, errorCode, highWatermark, lastStableOffset, aborted, recordSet };
};

class FieldReader {
  readonly #answer: Buffer;
  #at = 0;

  constructor(answer: Buffer) {
    this.#answer = answer;
  }

  skip(size: number): number {
    const at = this.#at;
    this.#at += size;
    return at;
  }

  int16(): number {
    return this.#answer.readInt16BE(this.skip(2));
  }

  int32(): number {
    return this.#answer.readInt32BE(this.skip(4));
  }

  int64(): number {
    return readInt64(this.#answer, this.skip(8));
  }

  text(): string {
    const size = this.int16();
    const start = this.skip(size);
    return this.#answer.toString('utf8', start, start + size);
  }

  bytes(): Buffer {
    const size = Math.max(0, this.int32());
    const start = this.skip(size);
    return this.#answer.subarray(start, start + size);
  }
}
