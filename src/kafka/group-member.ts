import type { Cluster, Consumer, Kafka } from 'kafkajs';
import type { Place } from '../streams/record.ts';
import { type Fetching, takeOverFetches } from './own-fetches.ts';
import { assignByPartitionNumber } from './partition-assigner.ts';
import { findTopicIds } from './topic-ids.ts';

export interface GroupMemberOptions {
  readonly groupId: string;
  readonly topics: readonly string[];
  readonly startFrom: 'earliest' | 'latest';
  readonly sessionTimeoutMs: number;
  readonly heartbeatIntervalMs: number;
  readonly fetching: Fetching;
  /** The assignment is going to change, or may have changed already: whatever is held is not ours any more. */
  readonly onLeaving: () => void;
  readonly onJoined: (places: readonly Place[]) => void;
  /** kafkajs has given up, and will not try again by itself. */
  readonly onDeath: (error: Error) => void;
}

/** This process's place in the consumer group: one kafkajs consumer, whose fetches are ours. */
export interface GroupMember {
  /** Resolves when the broker was reached; `onJoined` tells when the group has let it in. */
  start(): Promise<void>;
  commit(offsets: readonly (Place & { readonly offset: number })[]): Promise<void>;
  /** The first offset that the topic still has. */
  firstOffset(place: Place): Promise<number>;
  /** How many partitions each topic has, as the brokers say now. */
  partitionCounts(): Promise<ReadonlyMap<string, number>>;
  /** The id that each topic has, as the brokers say now. */
  topicIds(): Promise<ReadonlyMap<string, string>>;
  stop(): Promise<void>;
}

/** Time after which it is asked whether topics have got partitions. */
const metadataMaxAgeMs = 60_000;
/** How long a fetch waits for records. The broker answers as soon as there is one; this bounds how long a stop waits. */
const fetchWaitMs = 250;

export const createGroupMember = (kafka: Kafka, options: GroupMemberOptions): GroupMember => {
  let cluster: Cluster | undefined;
  let isStopping = false;
  const consumer = kafka.consumer({
    groupId: options.groupId,
    sessionTimeout: options.sessionTimeoutMs,
    heartbeatInterval: options.heartbeatIntervalMs,
    maxWaitTimeInMs: fetchWaitMs,
    metadataMaxAge: metadataMaxAgeMs,
    allowAutoTopicCreation: false,
    // kafkajs would start one again that fails on its way out, for ever and behind everybody's back.
    retry: { retries: 5, restartOnFailure: async () => !isStopping },
    partitionAssigners: [
      (config) => {
        cluster = config.cluster;
        takeOverFetches(cluster, options.fetching);
        noticeJoins(cluster, options.onLeaving);
        return assignByPartitionNumber(config);
      },
    ],
  });
  listen(consumer, options);

  return {
    start: async () => {
      await consumer.connect();
      await consumer.subscribe({
        topics: [...options.topics],
        fromBeginning: options.startFrom === 'earliest',
      });
      // Comes back when the group has let this member in, which may take as long as the session of one that was killed.
      void consumer
        .run({ autoCommit: false, eachBatch: async () => {} })
        .catch((error: Error) => options.onDeath(error));
    },
    commit: (offsets) =>
      consumer.commitOffsets(
        offsets.map(({ topic, partition, offset }) => ({ topic, partition, offset: String(offset) })),
      ),
    firstOffset: async ({ topic, partition }) => {
      const found = await cluster?.fetchTopicsOffset([
        { topic, partitions: [{ partition }], fromBeginning: true },
      ]);
      const offset = found?.[0]?.partitions[0]?.offset;
      if (offset === undefined) throw new Error(`The broker does not say where ${topic}/${partition} begins`);
      return Number(offset);
    },
    partitionCounts: async () => {
      if (!cluster) throw new Error('The consumer is not in its group yet');
      const known = cluster;
      await known.refreshMetadata();
      return new Map(options.topics.map((topic) => [topic, known.findTopicPartitionMetadata(topic).length]));
    },
    topicIds: async () => {
      const ids = await findTopicIds(cluster, options.topics);
      const missing = options.topics.find((topic) => !ids.has(topic));
      if (missing !== undefined) throw new Error(`The brokers know no topic ${missing}`);
      return ids;
    },
    stop: () => {
      isStopping = true;
      return consumer.disconnect();
    },
  };
};

/**
 * Every way into the group begins with the question who coordinates it: after a rebalance, when the coordinator has
 * forgotten this member, when leaders have moved. kafkajs has an event for the first of these only.
 */
const noticeJoins = (cluster: Cluster, onLeaving: () => void): void => {
  const findGroupCoordinator = cluster.findGroupCoordinator.bind(cluster);
  cluster.findGroupCoordinator = (group) => {
    onLeaving();
    return findGroupCoordinator(group);
  };
};

const listen = (consumer: Consumer, { onLeaving, onJoined, onDeath }: GroupMemberOptions): void => {
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const assigned = Object.entries(payload.memberAssignment);
    onJoined(
      assigned.flatMap(([topic, partitions]) => partitions.map((partition) => ({ topic, partition }))),
    );
  });
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    onLeaving();
    // kafkajs leaves a process alive with a dead consumer when it does not restart by itself.
    if (!payload.restart) onDeath(payload.error);
  });
};
