import type { Logger } from 'pino';
import type { Config } from '../config/settings.ts';
import { connectTopicReader } from '../kafka/topic-reader.ts';
import { openFirstBuild } from '../rebuild/first-build.ts';
import type { Topology } from '../streams/topology.ts';
import { findLiveBuild } from '../streams-postgres/builds/live-build.ts';
import { physicalTopic } from '../topics/topic-plan.ts';
import type { Adapters } from './adapters.ts';

/** Opens a build for every projection that has never been run; where there is none, nothing but the database is asked. */
export const openFirstBuilds = async (
  { database, kafka }: Pick<Adapters, 'database' | 'kafka'>,
  config: Config,
  topologies: readonly Topology[],
  log: Logger,
): Promise<void> => {
  const known = await Promise.all(topologies.map(({ name }) => findLiveBuild(database, name)));
  const unknown = topologies.filter((_, index) => !known[index]);
  if (unknown.length === 0) return;
  const reader = await connectTopicReader(kafka);
  try {
    const { startFrom } = config.streams;
    const ports = {
      database,
      reader,
      physicalTopic: (name: Parameters<typeof physicalTopic>[1]) => physicalTopic(config.topics.prefix, name),
      startFrom,
      log,
    };
    for (const topology of unknown) await openFirstBuild(ports, topology);
  } finally {
    await reader.close();
  }
};
