import type { Logger } from 'pino';
import type { TopicName } from '../event-catalogue/topic-name.ts';
import type { OffsetRange, TopicReader } from '../kafka/topic-reader.ts';
import type { Database } from '../postgres/database.ts';
import { type Topology, topicsOf } from '../streams/topology.ts';
import { findLiveBuild, insertFirstBuild, openLiveBuild } from '../streams-postgres/builds/live-build.ts';
import { setPositions } from './build.ts';
import { eventTypesOf } from './journal-kinds.ts';
import { whyNotRebuildable } from './model-tables.ts';
import { countHeldBack, hasPassedMoreThan } from './relay-position.ts';

export interface FirstBuildPorts {
  readonly database: Database;
  readonly reader: Pick<TopicReader, 'ranges'>;
  readonly physicalTopic: (name: TopicName) => string;
  /** Where a projection starts that has never been run; the latest is a choice to do without what was before. */
  readonly startFrom: 'earliest' | 'latest';
  readonly log: Logger;
}

/**
 * Opens the first build of a projection that nobody has ever run. Topics that have everything are read from their beginning. When
 * they have lost something, a build that can be filled from the journal waits for that, and any other begins with what is left.
 */
export const openFirstBuild = async (ports: FirstBuildPorts, topology: Topology): Promise<void> => {
  const { database, reader, startFrom } = ports;
  if (await findLiveBuild(database, topology.name)) return;
  if (startFrom === 'latest') {
    await openLiveBuild(database, topology);
    return;
  }
  const ranges = await reader.ranges(topicsOf(topology));
  const isWhole = await topicsHaveEverything(ports, topology, ranges);
  const why = whyNotRebuildable(topology);
  const awaitsFill = !isWhole && why === undefined;
  const isOpened = await database.transaction(async (tx) => {
    if (!(await insertFirstBuild(tx, topology, { awaitsFill }))) return false;
    // Written down where it begins: what retention takes before it was read is missed then, and not passed over.
    const places = ranges.map(({ topic, partition, start }) => ({ topic, partition, offset: start }));
    if (!awaitsFill) await setPositions(tx, { projection: topology.name, version: topology.version }, places);
    return true;
  });
  if (isOpened && !isWhole) tellWhatIsMissing(ports.log, topology, ranges, why);
};

/** A topic that was made anew begins at 0 as well, but has less than was sent to it. */
const topicsHaveEverything = async (
  { database, physicalTopic }: FirstBuildPorts,
  topology: Topology,
  ranges: readonly OffsetRange[],
): Promise<boolean> => {
  if (ranges.some(({ start }) => start > 0)) return false;
  const eventTypes = eventTypesOf(topicsOf(topology), physicalTopic);
  const records = ranges.reduce((sum, { start, end }) => sum + end - start, 0);
  // What could not be sent is held elsewhere, and counts as passed.
  const events = records + (await countHeldBack(database, eventTypes));
  return !(await hasPassedMoreThan(database, { events, eventTypes }));
};

const tellWhatIsMissing = (
  log: Logger,
  { name }: Topology,
  ranges: readonly OffsetRange[],
  why: string | undefined,
): void => {
  const begins = ranges
    .filter(({ start }) => start > 0)
    .map(({ topic, partition, start }) => ({ topic, partition, firstOffset: start }));
  if (why === undefined)
    log.warn(
      { projection: name, begins },
      'The topics have lost the beginning of what this new projection reads; its read model is filled from the journal first',
    );
  else
    log.error(
      { projection: name, begins },
      `The topics have lost the beginning of what this new projection reads, and it cannot be filled from the journal: ${why}. It starts with what is left, and does without the rest`,
    );
};
