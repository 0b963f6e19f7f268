import { FlexibleWriter } from './flexible-fields.ts';

/** A fetch as kafkajs hands it over to be written. */
export interface FetchFields {
  readonly replicaId?: number;
  readonly isolationLevel?: number;
  readonly maxWaitTime: number;
  readonly minBytes: number;
  readonly maxBytes: number;
  readonly rackId?: string;
  readonly topics: readonly {
    readonly topic: string;
    readonly partitions: readonly AskedPartition[];
  }[];
}

export interface AskedPartition {
  readonly partition: number;
  readonly fetchOffset: string;
  readonly maxBytes: number;
  /** Which topic of that name is meant: a broker that has another one says so instead of answering with its records. */
  readonly topicId?: string | undefined;
  /** The leader epoch of the record before: a broker whose log has another there says where they part. */
  readonly lastFetchedEpoch?: number | undefined;
}

/**
 * The first version that asks by the topics' ids; since version 12 it tells the epoch that was read last. Brokers know it
 * since 3.1.
 */
export const fetchVersion = 13;

const consumer = -1;
const readCommitted = 1;
const unknown = -1;

/**
 * replica 4 · wait 4 · bytes at least 4 · at most 4 · isolation 1 · no session 4 + 4 · topics (id 16 · partitions (number 4 ·
 * leader epoch 4 · offset 8 · epoch before 4 · log start 8 · bytes at most 4)) · forgotten topics · rack
 */
export const encodeFetchRequest = (fields: FetchFields): FlexibleWriter => {
  const body = new FlexibleWriter();
  return body
    .int32(fields.replicaId ?? consumer)
    .int32(fields.maxWaitTime)
    .int32(fields.minBytes)
    .int32(fields.maxBytes)
    .int8(fields.isolationLevel ?? readCommitted)
    .int32(0)
    .int32(-1)
    .list(fields.topics, ({ topic, partitions }) => {
      body.uuid(topicIdOf(topic, partitions)).list(partitions, (asked) => {
        body
          .int32(asked.partition)
          .int32(unknown)
          .int64(asked.fetchOffset)
          .int32(asked.lastFetchedEpoch ?? unknown)
          .int64(unknown)
          .int32(asked.maxBytes)
          .noTags();
      });
      body.noTags();
    })
    .list([], () => {})
    .text(fields.rackId ?? '')
    .noTags();
};

export const topicIdOf = (topic: string, partitions: readonly AskedPartition[]): string => {
  const topicId = partitions[0]?.topicId;
  if (topicId === undefined) throw new Error(`Nobody has asked the brokers which topic ${topic} is`);
  return topicId;
};
