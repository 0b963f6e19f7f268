import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs, { type Admin, type ITopicMetadata, type Kafka } from 'kafkajs';
import { namesOf } from './publish-error.ts';

// A CommonJS module: Node does not see this one among its named exports.
const { ConfigResourceTypes } = kafkajs;

export interface TopicDescription {
  readonly partitions: number;
  readonly retentionMs: number;
  readonly minInsyncReplicas: number;
}

interface TopicToApply {
  readonly topic: string;
  readonly partitions: number;
  readonly replicationFactor: number;
  readonly minInsyncReplicas: number;
  readonly retentionMs: number;
}

export interface TopicAdmin {
  brokerCount(): Promise<number>;
  describe(topics: readonly string[]): Promise<ReadonlyMap<string, TopicDescription>>;
  create(topics: readonly TopicToApply[]): Promise<void>;
  addPartitions(topics: readonly TopicToApply[]): Promise<void>;
  changeSettings(topics: readonly TopicToApply[]): Promise<void>;
  /** The offset after the newest record, per partition, and where it begins. */
  endOffsets(
    topic: string,
  ): Promise<readonly { readonly partition: number; readonly start: number; readonly offset: number }[]>;
  /** What each partition has: the first offset, and the one after the newest record. */
  ranges(
    topic: string,
  ): Promise<readonly { readonly partition: number; readonly start: number; readonly end: number }[]>;
  close(): Promise<void>;
}

export const connectTopicAdmin = async (kafka: Kafka): Promise<TopicAdmin> => {
  const admin = kafka.admin();
  await admin.connect();
  return {
    brokerCount: async () => (await admin.describeCluster()).brokers.length,
    describe: (topics) => describeTopics(admin, topics),
    create: (topics) => createTopics(admin, topics),
    addPartitions: async (topics) => {
      if (topics.length === 0) return;
      await admin.createPartitions({
        topicPartitions: topics.map(({ topic, partitions }) => ({ topic, count: partitions })),
      });
    },
    changeSettings: async (topics) => {
      if (topics.length === 0) return;
      await admin.alterConfigs({
        validateOnly: false,
        resources: topics.map((topic) => ({
          type: ConfigResourceTypes.TOPIC,
          name: topic.topic,
          configEntries: configEntries(topic),
        })),
      });
    },
    endOffsets: async (topic) =>
      (await admin.fetchTopicOffsets(topic)).map(({ partition, low, high }) => ({
        partition,
        start: Number(low),
        offset: Number(high),
      })),
    ranges: async (topic) =>
      (await whilePassing(() => admin.fetchTopicOffsets(topic))).map(({ partition, low, high }) => ({
        partition,
        start: Number(low),
        end: Number(high),
      })),
    close: () => admin.disconnect(),
  };
};

const configEntries = (topic: TopicToApply) => [
  { name: 'retention.ms', value: String(topic.retentionMs) },
  { name: 'min.insync.replicas', value: String(topic.minInsyncReplicas) },
];

const createTopics = async (admin: Admin, topics: readonly TopicToApply[]): Promise<void> => {
  if (topics.length === 0) return;
  // Answers false when somebody else created them in between, which is just as well.
  await admin.createTopics({
    timeout: createTimeoutMs,
    waitForLeaders: false,
    topics: topics.map((topic) => ({
      topic: topic.topic,
      numPartitions: topic.partitions,
      replicationFactor: topic.replicationFactor,
      configEntries: configEntries(topic),
    })),
  });
  await readMetadata(
    admin,
    topics.map(({ topic }) => topic),
  );
};

const createTimeoutMs = 30_000;
const metadataTimeoutMs = 60_000;
const metadataPollMs = 100;

/** A topic that was just made is not known to every broker at once, and its partitions get leaders a moment later. */
const passing: ReadonlySet<string> = new Set([
  'UNKNOWN_TOPIC_OR_PARTITION',
  'LEADER_NOT_AVAILABLE',
  'NOT_LEADER_FOR_PARTITION',
]);

/** Of topics that are there, or will be in a moment. kafkajs waits for leaders, but not until brokers know of a topic. */
const readMetadata = async (admin: Admin, topics: string[]): Promise<readonly ITopicMetadata[]> =>
  whilePassing(async () => (await admin.fetchTopicMetadata({ topics })).topics);

const whilePassing = async <T>(ask: () => Promise<T>): Promise<T> => {
  const deadline = Date.now() + metadataTimeoutMs;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      const isPassing = namesOf(error).some((name) => passing.has(name));
      if (!isPassing || Date.now() > deadline) throw error;
    }
    await sleep(metadataPollMs);
  }
};

const describeTopics = async (
  admin: Admin,
  topics: readonly string[],
): Promise<ReadonlyMap<string, TopicDescription>> => {
  const all = new Set(await admin.listTopics());
  const present = topics.filter((topic) => all.has(topic));
  if (present.length === 0) return new Map();
  const metadata = await readMetadata(admin, present);
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: present.map((name) => ({
      type: ConfigResourceTypes.TOPIC,
      name,
      configNames: ['retention.ms', 'min.insync.replicas'],
    })),
  });
  const configOf = (topic: string, name: string): number => {
    const resource = resources.find((candidate) => candidate.resourceName === topic);
    return Number(resource?.configEntries.find((entry) => entry.configName === name)?.configValue);
  };
  return new Map(
    metadata.map(({ name, partitions }) => [
      name,
      {
        partitions: partitions.length,
        retentionMs: configOf(name, 'retention.ms'),
        minInsyncReplicas: configOf(name, 'min.insync.replicas'),
      },
    ]),
  );
};
