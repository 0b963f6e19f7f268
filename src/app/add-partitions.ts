import type { Config } from '../config/settings.ts';
import { topicNames } from '../event-catalogue/topic-name.ts';
import { partitionOfKey } from '../kafka/murmur2.ts';
import { connectTopicAdmin } from '../kafka/topic-admin.ts';
import { topicsOf } from '../streams/topology.ts';
import { physicalTopic, planTopics } from '../topics/topic-plan.ts';
import {
  type AddPartitionsOptions,
  type AddPartitionsPorts,
  type AddPartitionsReport,
  addPartitions,
} from '../topics-admin/add-partitions.ts';
import type { Adapters } from './adapters.ts';
import { projections } from './projections.ts';
import { relayAdminOf } from './relay-admin.ts';

/** Brings the event topics to the planned number of partitions, over the servers of this process. */
export const addPlannedPartitions = async (
  { database, kafka }: Pick<Adapters, 'database' | 'kafka'>,
  config: Config,
  options: AddPartitionsOptions & Pick<AddPartitionsPorts, 'who' | 'onProgress' | 'signal'>,
): Promise<AddPartitionsReport> => {
  const admin = await connectTopicAdmin(kafka);
  const eventTopics = new Set(topicNames.map((name) => physicalTopic(config.topics.prefix, name)));
  try {
    const { who, onProgress, signal, ...how } = options;
    return await addPartitions(
      {
        database,
        relay: relayAdminOf(database, config),
        admin,
        plan: planTopics(config.topics, await admin.brokerCount()).filter(({ topic }) =>
          eventTopics.has(topic),
        ),
        projections: projections(config).map((topology) => ({
          name: topology.name,
          topics: topicsOf(topology),
        })),
        partitionOf,
        who,
        onProgress,
        signal,
      },
      how,
    );
  } finally {
    await admin.close();
  }
};

const partitionOf = (key: string, partitions: number): number => {
  const bytes = Buffer.from(key);
  return partitionOfKey({ bytes, keyStart: 0, keyEnd: bytes.length }, partitions);
};
