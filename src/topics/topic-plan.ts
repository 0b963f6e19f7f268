import { type TopicName, topicNames } from '../event-catalogue/topic-name.ts';

export interface TopicSettings {
  readonly prefix: string;
  readonly partitions: number;
  readonly retentionMs: number;
  readonly dlqRetentionMs: number;
  readonly replicationFactorMax: number;
}

export interface PlannedTopic {
  readonly topic: string;
  readonly partitions: number;
  readonly replicationFactor: number;
  readonly minInsyncReplicas: number;
  readonly retentionMs: number;
}

/** What the broker calls a topic of the catalogue. */
export const physicalTopic = (prefix: string, name: TopicName): string => `${prefix}${name}`;

export const deadLetterTopicOf = (topic: string): string => `${topic}.dlq`;

/** The topics as they should be: each event topic and, with one partition, its dead-letter topic. */
export const planTopics = (settings: TopicSettings, brokerCount: number): readonly PlannedTopic[] => {
  const replicationFactor = Math.min(settings.replicationFactorMax, brokerCount);
  const copies = { replicationFactor, minInsyncReplicas: Math.max(1, replicationFactor - 1) };
  return topicNames
    .map((name) => physicalTopic(settings.prefix, name))
    .flatMap((topic) => [
      { topic, partitions: settings.partitions, retentionMs: settings.retentionMs, ...copies },
      { topic: deadLetterTopicOf(topic), partitions: 1, retentionMs: settings.dlqRetentionMs, ...copies },
    ]);
};
