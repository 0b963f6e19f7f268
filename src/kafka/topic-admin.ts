import kafkajs, { type Admin, type Kafka } from 'kafkajs';

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
  /** The offset after the newest record, per partition. */
  endOffsets(topic: string): Promise<readonly { readonly partition: number; readonly offset: number }[]>;
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
      (await admin.fetchTopicOffsets(topic)).map(({ partition, high }) => ({
        partition,
        offset: Number(high),
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
    waitForLeaders: true,
    topics: topics.map((topic) => ({
      topic: topic.topic,
      numPartitions: topic.partitions,
      replicationFactor: topic.replicationFactor,
      configEntries: configEntries(topic),
    })),
  });
};

const describeTopics = async (
  admin: Admin,
  topics: readonly string[],
): Promise<ReadonlyMap<string, TopicDescription>> => {
  const all = new Set(await admin.listTopics());
  const present = topics.filter((topic) => all.has(topic));
  if (present.length === 0) return new Map();
  const [{ topics: metadata }, { resources }] = await Promise.all([
    admin.fetchTopicMetadata({ topics: present }),
    admin.describeConfigs({
      includeSynonyms: false,
      resources: present.map((name) => ({
        type: ConfigResourceTypes.TOPIC,
        name,
        configNames: ['retention.ms', 'min.insync.replicas'],
      })),
    }),
  ]);
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
