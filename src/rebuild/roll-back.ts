import { RecordsGone } from '../kafka/topic-reader.ts';
import { OperatorError } from '../operator-error.ts';
import type { Database } from '../postgres/database.ts';
import { placeText } from '../streams/record.ts';
import { type Topology, topicsOf } from '../streams/topology.ts';
import { openLiveBuild } from '../streams-postgres/builds/live-build.ts';
import { type Build, findFormerBuild, listBuilds, listPositions, schemaOf, setStatus } from './build.ts';
import { whileFollowing } from './catch-up.ts';
import { dropBuild } from './drop-build.ts';
import { holdLive } from './hold-live.ts';
import { modelTablesOf } from './model-tables.ts';
import { oneRebuildAtATime } from './one-rebuild.ts';
import type { RebuildPorts } from './rebuild-ports.ts';
import { requireRebuildable } from './rebuild-projection.ts';
import { requireWholeLogs } from './require-whole-logs.ts';
import { retryWhileLocked } from './retry-while-locked.ts';
import { SetAside } from './run-build.ts';
import { swapBuilds } from './swap-builds.ts';
import type { PlaceOffset } from './topic-source.ts';

export interface RollbackReport {
  readonly projection: string;
  readonly outcome: 'rolled-back';
  readonly build: number;
  readonly replaces: number;
  /** Records that the old model had missed since it was replaced. */
  readonly events: number;
  readonly seconds: number;
}

/** Brings the model that was live before up to date, and back into its place. The one it replaces is kept. */
export const rollBack = (ports: RebuildPorts, topology: Topology): Promise<RollbackReport> => {
  requireRebuildable(topology);
  return oneRebuildAtATime(ports.database, topology.name, () => bringBack(ports, topology));
};

const bringBack = async (ports: RebuildPorts, topology: Topology): Promise<RollbackReport> => {
  const { database } = ports;
  const startedMs = performance.now();
  let events = 0;
  const live = await openLiveBuild(database, topology);
  const former = await requireFormer(database, topology);
  const places = await listPositions(database, former);
  await requireTopics(ports, topology, places);
  await dropUnfinished(database, topology.name);
  await setStatus(database, former, 'returning');
  const store = ports.openStore(schemaOf(former));
  const following = {
    topology: { ...topology, version: former.version },
    build: former,
    places,
    store,
    setAside: new SetAside(database, former),
    onEvents: (count: number): void => {
      events += count;
    },
    live: undefined,
  };
  const { name: projection } = topology;
  const { who } = ports;
  try {
    await whileFollowing(ports, following, (follower) =>
      retryWhileLocked(ports, { projection, doing: 'swapping' }, async () => {
        await follower.comeClose();
        await holdLive(database, { projection, version: live.version }, async (tx, positions) => {
          // Never behind what queries have seen.
          await follower.advanceTo(positions);
          await requireWholeLogs(tx, former);
          await swapBuilds(tx, {
            projection,
            liveVersion: live.version,
            build: former,
            tables: modelTablesOf(topology).map(({ table }) => table),
            audit: {
              who,
              action: 'projections.rollback',
              target: { projection, build: former.version, replaces: live.version },
            },
          });
        });
      }),
    );
  } catch (error) {
    if (ports.signal.aborted) await setStatus(database, former, 'retired');
    if (error instanceof RecordsGone)
      throw new OperatorError(`The earlier model of ${projection} cannot catch up: ${error.message}`, {
        remedy: 'Rebuild it instead: the journal has everything',
        cause: error,
      });
    throw error;
  } finally {
    await store.close();
  }
  const seconds = (performance.now() - startedMs) / 1000;
  return {
    projection,
    outcome: 'rolled-back',
    build: former.version,
    replaces: live.version,
    events,
    seconds,
  };
};

const requireFormer = async (database: Database, { name, version }: Topology): Promise<Build> => {
  const former = await findFormerBuild(database, name);
  if (!former)
    throw new OperatorError(`${name} has no earlier model to go back to`, {
      remedy: 'One is kept by every rebuild, until the next one',
    });
  if (former.awaitsFill)
    throw new OperatorError(`The earlier model of ${name} is empty: it was never filled`, {
      remedy: 'There is nothing to go back to',
    });
  if (former.definitionVersion !== version)
    throw new OperatorError(
      `The earlier model of ${name} is that of version ${former.definitionVersion} of the projection, and this program has version ${version}`,
      { remedy: 'Roll back with the program of then' },
    );
  return former;
};

const requireTopics = async (
  { reader }: RebuildPorts,
  topology: Topology,
  positions: readonly PlaceOffset[],
): Promise<void> => {
  const starts = new Map(
    (await reader.ranges(topicsOf(topology))).map((range) => [placeText(range), range.start]),
  );
  const gone = positions.find((position) => (starts.get(placeText(position)) ?? 0) > position.offset);
  if (!gone) return;
  throw new OperatorError(
    `The earlier model of ${topology.name} stands at ${gone.offset} of ${placeText(gone)}, and retention has taken what follows`,
    { remedy: 'Rebuild it instead: the journal has everything' },
  );
};

const dropUnfinished = async (database: Database, projection: string): Promise<void> => {
  for (const build of await listBuilds(database, projection))
    if (build.status === 'building' || build.status === 'dropping') await dropBuild(database, build);
};
