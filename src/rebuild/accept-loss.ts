import type { TopicReader } from '../kafka/topic-reader.ts';
import { writeAudit } from '../operator-audit/write-audit.ts';
import { OperatorError } from '../operator-error.ts';
import type { Database, SqlRunner } from '../postgres/database.ts';
import { placeText } from '../streams/record.ts';
import { type Topology, topicsOf } from '../streams/topology.ts';
import { findLiveBuild, type LiveBuild } from '../streams-postgres/builds/live-build.ts';
import { listPositions, setPositions } from './build.ts';
import { holdLive } from './hold-live.ts';
import { type LostRecords, lostBehind } from './live-lack.ts';
import type { RebuildPorts } from './rebuild-ports.ts';
import { retryWhileLocked } from './retry-while-locked.ts';
import type { PlaceOffset } from './topic-source.ts';

export interface AcceptLossPorts extends Pick<RebuildPorts, 'who' | 'onProgress' | 'signal'> {
  readonly database: Database;
  readonly reader: Pick<TopicReader, 'ranges'>;
}

export interface AcceptedLoss {
  readonly projection: string;
  readonly outcome: 'nothing-lost' | 'accepted' | 'tried';
  /** The read model waited to be filled from the journal, and begins with what the topics have instead. */
  readonly wasNeverFilled: boolean;
  readonly lost: readonly LostRecords[];
}

/** Lets a projection go on with what the topics have, without what they have lost. */
export const acceptLoss = async (
  ports: AcceptLossPorts,
  topology: Topology,
  { dryRun }: { readonly dryRun: boolean },
): Promise<AcceptedLoss> => {
  const { database, reader } = ports;
  const { name: projection } = topology;
  const live = await requireLive(database, projection);
  const ranges = await reader.ranges(topicsOf(topology));
  const lossBehind = (positions: readonly PlaceOffset[]) =>
    live.awaitsFill ? missingFrom(ranges) : lostBehind(positions, ranges);
  const found = lossBehind(await listPositions(database, { projection, version: live.version }));
  const told = { projection, wasNeverFilled: live.awaitsFill };
  if (!live.awaitsFill && found.length === 0) return { ...told, outcome: 'nothing-lost', lost: [] };
  if (dryRun) return { ...told, outcome: 'tried', lost: found };
  const lost = await retryWhileLocked(ports, { projection, doing: 'waiting' }, () =>
    holdLive(database, { projection, version: live.version }, async (tx, positions) => {
      const losses = lossBehind(positions);
      const places = live.awaitsFill
        ? ranges.map(({ topic, partition, start }) => ({ topic, partition, offset: start }))
        : losses.map(({ topic, partition, firstOffset }) => ({ topic, partition, offset: firstOffset }));
      await setPositions(tx, { projection, version: live.version }, places);
      await fenceTasks(tx, projection, live.version);
      await writeAudit(tx, {
        who: ports.who,
        action: 'projections.accept-loss',
        target: {
          projection,
          build: live.version,
          neverFilled: live.awaitsFill,
          lost: losses.map(({ checkpoint, firstOffset, ...place }) => ({
            place: placeText(place),
            checkpoint,
            firstOffset,
          })),
        },
      });
      return losses;
    }),
  );
  return { ...told, outcome: 'accepted', lost };
};

const requireLive = async (database: Database, projection: string): Promise<LiveBuild> => {
  const live = await findLiveBuild(database, projection);
  if (live) return live;
  throw new OperatorError(`${projection} has never been run`, {
    remedy: 'A projector opens its read model when it starts',
  });
};

const missingFrom = (
  ranges: readonly { readonly topic: string; readonly partition: number; readonly start: number }[],
): readonly LostRecords[] =>
  ranges
    .filter(({ start }) => start > 0)
    .map(({ topic, partition, start }) => ({ topic, partition, checkpoint: 0, firstOffset: start }));

const resetStatement = {
  name: 'note-checkpoint-reset',
  text: `
    update projection_build set checkpoint_resets = checkpoint_resets + 1, awaits_fill = false
    where projection = $1 and version = $2`,
};

const fenceStatement = {
  name: 'fence-tasks',
  text: 'update projection_task set commits = commits + 1 where projection = $1 and version = $2',
};

/** Whatever was computed before is dropped, and whoever runs the build begins anew at the checkpoints. */
const fenceTasks = async (tx: SqlRunner, projection: string, version: number): Promise<void> => {
  await tx.execute(resetStatement, [projection, version]);
  await tx.execute(fenceStatement, [projection, version]);
};
