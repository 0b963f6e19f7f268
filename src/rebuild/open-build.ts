import { OperatorError } from '../operator-error.ts';
import { placeText } from '../streams/record.ts';
import { type Topology, topicsOf } from '../streams/topology.ts';
import {
  type Build,
  insertBuild,
  listBuilds,
  listPositions,
  type RebuildSource,
  schemaOf,
  setPositions,
  setStatus,
} from './build.ts';
import { createShadow } from './create-shadow.ts';
import { dropBuild } from './drop-build.ts';
import { modelTablesOf } from './model-tables.ts';
import type { RebuildPorts } from './rebuild-ports.ts';
import { skipVersionsAgain } from './skip-versions-again.ts';
import type { PlaceOffset } from './topic-source.ts';

export interface OpenedBuild {
  readonly build: Build;
  readonly isResumed: boolean;
  readonly places: readonly PlaceOffset[];
}

/** The build that an earlier process has begun, if this one would have done the same; otherwise a new one. */
export const openBuild = async (
  ports: RebuildPorts,
  topology: Topology,
  source: RebuildSource,
): Promise<OpenedBuild> => {
  const { database, program, log } = ports;
  for (const build of await listBuilds(database, topology.name)) {
    if (build.status === 'dropping') await dropBuild(database, build);
    // A rollback was broken off on its way: what it had kept is kept.
    if (build.status === 'returning') await setStatus(database, build, 'retired');
    if (build.status !== 'building') continue;
    const isOurs =
      build.program === program && build.definitionVersion === topology.version && build.source === source;
    const places = await listPositions(database, build);
    const lost = isOurs ? await findLost(ports, topology, build, places) : undefined;
    if (isOurs && !lost) return { build, isResumed: true, places };
    if (lost)
      log.warn(
        { projection: build.projection, build: build.version, ...lost },
        'The build that an earlier process has begun lacks records that are gone from the topic; it is begun anew',
      );
    await dropBuild(database, build);
  }
  return { ...(await beginBuild(ports, topology, source)), isResumed: false };
};

/** Where a build would have to go on in the topics, and the topic does not have that any more. */
const findLost = async (
  { reader }: RebuildPorts,
  topology: Topology,
  build: Build,
  places: readonly PlaceOffset[],
): Promise<PlaceOffset | undefined> => {
  const next = build.phase === 'replay' ? (build.kafkaStart ?? []) : places;
  const ranges = new Map((await reader.ranges(topicsOf(topology))).map((range) => [placeText(range), range]));
  return next.find((place) => {
    const range = ranges.get(placeText(place));
    if (!range || place.offset < range.start || place.offset > range.end) return true;
    return Boolean(place.topicId && range.topicId && place.topicId !== range.topicId);
  });
};

const beginBuild = async (
  { database, reader, program }: RebuildPorts,
  topology: Topology,
  source: RebuildSource,
): Promise<Omit<OpenedBuild, 'isResumed'>> => {
  // Before the snapshot is taken: what Kafka has by now is in it.
  const ranges = await reader.ranges(topicsOf(topology));
  const missing = topicsOf(topology).find((topic) => !ranges.some((range) => range.topic === topic));
  if (missing !== undefined)
    throw new OperatorError(`There is no topic ${missing}`, {
      remedy: 'Make the topics with millrace topics apply',
    });
  if (source === 'kafka') requireWholeTopics(ranges);
  const kafkaStart = ranges.map(({ topic, partition, end, topicId }) => ({
    topic,
    partition,
    offset: source === 'kafka' ? 0 : end,
    topicId,
  }));
  // What is replayed has no place in a log.
  const places = kafkaStart.map(({ topicId, ...place }) =>
    source === 'kafka' ? { ...place, topicId } : { ...place, offset: 0 },
  );
  const build = await database.transaction(async (tx) => {
    const definitionVersion = topology.version;
    const begun = await insertBuild(tx, {
      projection: topology.name,
      definitionVersion,
      source,
      program,
      kafkaStart,
    });
    await createShadow(
      tx,
      schemaOf(begun),
      modelTablesOf(topology).map(({ table }) => table),
    );
    await setPositions(tx, begun, places);
    await skipVersionsAgain(tx, begun);
    return begun;
  });
  return { build, places };
};

const requireWholeTopics = (
  ranges: readonly { readonly topic: string; readonly partition: number; readonly start: number }[],
): void => {
  const eaten = ranges.find(({ start }) => start > 0);
  if (!eaten) return;
  throw new OperatorError(
    `Kafka has lost the beginning: ${placeText(eaten)} starts at ${eaten.start}, retention has taken what was before`,
    { remedy: 'Rebuild with --from journal, which has everything' },
  );
};
