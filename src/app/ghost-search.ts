import type { Config } from '../config/settings.ts';
import { topicNames } from '../event-catalogue/topic-name.ts';
import { connectTopicReader } from '../kafka/topic-reader.ts';
import type { SearchPorts } from '../relay/ghosts/search-topics.ts';
import { physicalTopic } from '../topics/topic-plan.ts';
import type { Adapters } from './adapters.ts';

/** What a search for events that Kafka has and the journal has not needs, over the servers of this process. */
export const ghostSearchOf = (
  { database, kafka, registry }: Pick<Adapters, 'database' | 'kafka' | 'registry'>,
  config: Config,
): SearchPorts => ({
  database,
  registry,
  topics: topicNames.map((name) => physicalTopic(config.topics.prefix, name)),
  openReader: () => connectTopicReader(kafka),
});
