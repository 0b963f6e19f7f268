import type { TopicReader } from '../kafka/topic-reader.ts';
import type { SqlRunner } from '../postgres/database.ts';
import { type Place, placeText } from '../streams/record.ts';
import { type Topology, topicsOf } from '../streams/topology.ts';
import type { LiveBuild } from '../streams-postgres/builds/live-build.ts';
import { listPositions } from './build.ts';
import { whyNotRebuildable } from './model-tables.ts';
import type { PlaceOffset } from './topic-source.ts';

/** Records that a live build had still to read, and that its topic does not have any more. */
export interface LostRecords extends Place {
  readonly checkpoint: number;
  /** Where the topic begins now. */
  readonly firstOffset: number;
}

/** What a live build cannot get from the topics any more; it neither goes on by itself, nor can another be compared with it. */
export type Lack =
  /** It was never filled. */
  | { readonly kind: 'never-filled' }
  | { readonly kind: 'records-lost'; readonly lost: readonly LostRecords[] };

/** What an operator can do about it. */
export const remedyOfLoss = (topology: Topology): string => {
  const { name } = topology;
  const why = whyNotRebuildable(topology);
  return why === undefined
    ? `Fill it from the journal: npx millrace rebuild ${name}`
    : `It cannot be filled from the journal: ${why}. Go on without what is lost: npx millrace topologies accept-loss ${name}`;
};

export const lostBehind = (
  positions: readonly PlaceOffset[],
  ranges: readonly (Place & { readonly start: number })[],
): readonly LostRecords[] => {
  const checkpoints = new Map(positions.map((position) => [placeText(position), position.offset]));
  return ranges.flatMap(({ topic, partition, start: firstOffset }) => {
    const checkpoint = checkpoints.get(placeText({ topic, partition }));
    return checkpoint !== undefined && checkpoint < firstOffset
      ? [{ topic, partition, checkpoint, firstOffset }]
      : [];
  });
};

/** By the checkpoints and the topics themselves, so that it is known whether or not a projector runs. */
export const findLack = async (
  { database, reader }: { readonly database: SqlRunner; readonly reader: Pick<TopicReader, 'ranges'> },
  topology: Topology,
  live: LiveBuild,
): Promise<Lack | undefined> => {
  if (live.awaitsFill) return { kind: 'never-filled' };
  const positions = await listPositions(database, { projection: topology.name, version: live.version });
  const lost = lostBehind(positions, await reader.ranges(topicsOf(topology)));
  return lost.length > 0 ? { kind: 'records-lost', lost } : undefined;
};
