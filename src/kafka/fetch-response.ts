import type { AbortedTransaction } from './aborted-transactions.ts';
import { type FlexibleReader, flexibleAnswer } from './flexible-fields.ts';

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
  /** Set where the log has another record than the one that was read last before the offset; there are no records then. */
  readonly divergence?: Divergence;
}

/** Where a log parts from the one that was read. */
export interface Divergence {
  /** The latest epoch of the log that is not later than the one that was read last. */
  readonly leaderEpoch: number;
  /** Where that epoch ends in the log. */
  readonly endOffset: number;
  /** Where the log begins. */
  readonly logStartOffset: number;
}

export interface FetchResponse {
  readonly throttleMs: number;
  readonly errorCode: number;
  readonly partitions: readonly FetchedPartition[];
}

/**
 * throttle time 4 · error 2 · session 4 · topics (id 16 · partitions (number 4 · error 2 · high watermark 8 · last stable
 * offset 8 · log start offset 8 · aborted transactions (producer id 8 · first offset 8) · preferred replica 4 · records))
 */
export const decodeFetchResponse = (answer: Buffer, topics: ReadonlyMap<string, string>): FetchResponse => {
  const cursor = flexibleAnswer(answer);
  const throttleMs = cursor.int32();
  const errorCode = cursor.int16();
  cursor.skip(4);
  const partitions = cursor.list(() => {
    const topicId = cursor.uuid();
    const topic = topics.get(topicId);
    const fetched = cursor.list(() => decodePartition(cursor, topic ?? topicId));
    cursor.tags();
    return topic === undefined ? [] : fetched;
  });
  return { throttleMs, errorCode, partitions: partitions.flat() };
};

const divergingEpochTag = 0;

const decodePartition = (cursor: FlexibleReader, topic: string): FetchedPartition => {
  const partition = cursor.int32();
  const errorCode = cursor.int16();
  const highWatermark = cursor.int64();
  const lastStableOffset = cursor.int64();
  const logStartOffset = cursor.int64();
  const aborted = cursor.list(() => {
    const found = { producerId: cursor.int64(), firstOffset: cursor.int64() };
    cursor.tags();
    return found;
  });
  cursor.skip(4);
  const recordSet = cursor.bytes();
  let divergence: Divergence | undefined;
  cursor.tags((tag, value) => {
    if (tag === divergingEpochTag)
      divergence = { leaderEpoch: value.int32(), endOffset: value.int64(), logStartOffset };
  });
  const fetched = { topic, partition, errorCode, highWatermark, lastStableOffset, aborted, recordSet };
  return divergence ? { ...fetched, divergence } : fetched;
};
