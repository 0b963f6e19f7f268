import { RecordsGone } from '../kafka/topic-reader.ts';
import { OperatorError } from '../operator-error.ts';
import type { Place } from '../streams/record.ts';
import { type Topology, topicsOf } from '../streams/topology.ts';
import { type LiveBuild, openLiveBuild } from '../streams-postgres/builds/live-build.ts';
import { describePause, resumeCommand } from '../streams-postgres/pauses/projection-pause.ts';
import { type Build, listBuilds, type RebuildSource, schemaOf } from './build.ts';
import { type Follower, whileFollowing } from './catch-up.ts';
import { type Comparison, compareModels } from './compare-models.ts';
import { dropBuild } from './drop-build.ts';
import { executeAll } from './execute-ddl.ts';
import { holdLive } from './hold-live.ts';
import { eventTypesOf } from './journal-kinds.ts';
import { findLack } from './live-lack.ts';
import { modelTablesOf, whyNotRebuildable } from './model-tables.ts';
import { oneRebuildAtATime } from './one-rebuild.ts';
import { openBuild } from './open-build.ts';
import type { RebuildPorts } from './rebuild-ports.ts';
import { countHeldBack } from './relay-position.ts';
import { replayJournal } from './replay-journal.ts';
import { requireWholeLogs } from './require-whole-logs.ts';
import { retryWhileLocked } from './retry-while-locked.ts';
import { SetAside } from './run-build.ts';
import type { Calls } from './store-calls.ts';
import { swapBuilds } from './swap-builds.ts';

export interface RebuildOptions {
  readonly from: RebuildSource;
  readonly dryRun: boolean;
  readonly keepOld: boolean;
  readonly acceptDifferences: boolean;
  /** Broken off, it leaves what it has for the next one to go on with. */
  readonly resumeLater?: boolean;
}

/** Why a rebuilt model was not compared with the live one. */
export type NotCompared =
  /** Another version of the definition is not meant to be the same. */
  | 'another-version'
  /** There was nothing in the live model. */
  | 'never-filled'
  /** The live model lacks records that the topics have lost. */
  | 'records-lost';

export interface RebuildReport {
  readonly projection: string;
  /** `stopped`: there are differences, and the live model is as it was. `tried`: a dry run. */
  readonly outcome: 'swapped' | 'stopped' | 'tried';
  readonly from: RebuildSource;
  readonly build: number;
  readonly replaces: number;
  readonly isResumed: boolean;
  readonly events: number;
  readonly seconds: number;
  /** Of those, for the journal; 0 where there was nothing left of it to read. */
  readonly replaySeconds: number;
  /** Null where the live model cannot be compared with. */
  readonly comparison: Comparison | null;
  readonly notCompared: NotCompared | null;
  /** Records that could not be applied, as the live projection has set some aside. */
  readonly setAside: { readonly count: number; readonly shown: readonly string[] };
  /** Events that did not get to Kafka: the rebuilt model has them, the live one cannot. */
  readonly heldBack: number;
}

interface Rebuild {
  readonly topology: Topology;
  readonly options: RebuildOptions;
  readonly live: LiveBuild;
  readonly notCompared: NotCompared | null;
  readonly build: Build;
  readonly isResumed: boolean;
  readonly places: readonly Place[];
  readonly store: Calls;
  readonly setAside: SetAside;
  readonly onEvents: (count: number) => void;
}

/** Fills another build of a projection beside the live one, proves that it is the same, and lets it take its place. */
export const rebuildProjection = (
  ports: RebuildPorts,
  topology: Topology,
  options: RebuildOptions,
): Promise<RebuildReport> => {
  requireRebuildable(topology);
  return oneRebuildAtATime(ports.database, topology.name, () => rebuildWhole(ports, topology, options));
};

/** Retention may be faster than a build: then it is begun anew, so often. */
const beginningsMax = 3;

/** A build for which the topics have not kept what it had still to read is begun anew; it is never finished without that. */
export const rebuildWhole = async (
  ports: RebuildPorts,
  topology: Topology,
  options: RebuildOptions,
): Promise<RebuildReport> => {
  for (let begun = 1; ; begun++) {
    try {
      return await rebuild(ports, topology, options);
    } catch (error) {
      if (!(error instanceof RecordsGone)) throw error;
      if (options.from === 'kafka' || begun === beginningsMax)
        throw new OperatorError(`${topology.name} was not rebuilt: ${error.message}`, {
          remedy:
            options.from === 'kafka'
              ? 'Rebuild with --from journal, which has everything'
              : 'Keep records in the topics longer than a rebuild takes (TOPIC_RETENTION_MS), then start again',
          cause: error,
        });
      ports.log.warn(
        { projection: topology.name, err: error },
        'The topics have lost what the rebuild had still to read; it is begun anew',
      );
    }
  }
};

export const requireRebuildable = (topology: Topology): void => {
  const reason = whyNotRebuildable(topology);
  if (reason) throw new OperatorError(reason, { remedy: 'There is nothing to rebuild', exitCode: 2 });
};

const rebuild = async (
  ports: RebuildPorts,
  topology: Topology,
  options: RebuildOptions,
): Promise<RebuildReport> => {
  const { database } = ports;
  const startedMs = performance.now();
  let events = 0;
  // Whoever fills the first build of all is its only source: nobody is to run it before.
  const live = await openLiveBuild(database, topology, { awaitsFill: true });
  const notCompared = await findWhyNotCompared(ports, topology, live);
  requireComparable(topology, { live, notCompared, options });
  const { build, isResumed, places } = await openBuild(ports, topology, options.from);
  const store = ports.openStore(schemaOf(build));
  const setAside = new SetAside(database, build);
  const onEvents = (count: number): void => {
    events += count;
  };
  // What is kept under the version of the build is what this topology is about, whatever the definition's is.
  const own = { ...topology, version: build.version };
  try {
    const begun = { topology: own, options, live, notCompared, build, isResumed, places };
    const started = { ...begun, store, setAside, onEvents };
    const filled = build.phase === 'replay' ? await replayJournal(ports, started) : build;
    const replaySeconds = build.phase === 'replay' ? secondsSince(startedMs) : 0;
    const { outcome, comparison } = await proveAndSwap(ports, { ...started, build: filled });
    if (outcome !== 'swapped') await dropBuild(database, build);
    else if (live.awaitsFill) await dropBuild(database, { projection: topology.name, version: live.version });
    else if (!options.keepOld) await dropRetired(ports, topology.name, live.version);
    return {
      projection: topology.name,
      outcome,
      from: options.from,
      build: build.version,
      replaces: live.version,
      isResumed,
      events,
      seconds: secondsSince(startedMs),
      replaySeconds,
      comparison,
      notCompared,
      setAside: { count: setAside.count, shown: setAside.shown },
      heldBack: await countHeldBack(database, eventTypesOf(topicsOf(topology), ports.physicalTopic)),
    };
  } catch (error) {
    // Who breaks off wants nothing left. Whatever else went wrong, the next rebuild goes on from here.
    const isGivenUp = ports.signal.aborted && !options.resumeLater;
    if (isGivenUp || error instanceof RecordsGone) await dropBuild(database, build);
    throw error;
  } finally {
    await store.close();
  }
};

const findWhyNotCompared = async (
  ports: RebuildPorts,
  topology: Topology,
  live: LiveBuild,
): Promise<NotCompared | null> => {
  const lack = await findLack(ports, topology, live);
  if (lack) return lack.kind;
  return live.definitionVersion === topology.version ? null : 'another-version';
};

/** A replay may take an hour: it is not begun where it could never be compared with the live model. */
const requireComparable = (
  { name }: Topology,
  {
    live: { pause },
    notCompared,
    options: { from },
  }: { readonly live: LiveBuild; readonly notCompared: NotCompared | null; readonly options: RebuildOptions },
): void => {
  if (!pause || notCompared !== null || from !== 'journal') return;
  throw new OperatorError(
    `${name} is ${describePause(pause)}: its live model stands still, and a rebuild from the journal is compared with a live model that has everything`,
    {
      remedy: `Let it go on with ${resumeCommand(name)} and rebuild then, or use --from kafka, which compares at the position where it stands`,
    },
  );
};

const secondsSince = (startedMs: number): number => (performance.now() - startedMs) / 1000;

const dropRetired = async ({ database }: RebuildPorts, projection: string, kept: number): Promise<void> => {
  const builds = await listBuilds(database, projection);
  for (const build of builds)
    if (build.status === 'retired' && build.version !== kept) await dropBuild(database, build);
};

type Proven = Pick<RebuildReport, 'outcome' | 'comparison'>;

const proveAndSwap = (ports: RebuildPorts, rebuilt: Rebuild): Promise<Proven> => {
  const { live, notCompared, build, options } = rebuilt;
  const isCompared = notCompared === null;
  const followed = isCompared ? { projection: build.projection, version: live.version } : undefined;
  return whileFollowing(ports, { ...rebuilt, live: followed }, async (follower) => {
    await follower.comeClose();
    await analyze(ports, rebuilt);
    const comparison = isCompared ? await compare(ports, rebuilt, follower) : null;
    const isFaultless = (comparison?.differences ?? 0) === 0 && rebuilt.setAside.count === 0;
    if (options.dryRun) return { outcome: 'tried', comparison };
    if (!isFaultless && !options.acceptDifferences) return { outcome: 'stopped', comparison };
    await swapWhenPossible(ports, rebuilt, follower, comparison);
    return { outcome: 'swapped', comparison };
  });
};

/** Tables that were just filled have no statistics: the first queries after the swap would be planned blindly. */
const analyze = ({ database }: RebuildPorts, { topology, build }: Rebuild): Promise<void> =>
  executeAll(
    database,
    modelTablesOf(topology).map(({ table }) => `analyze ${schemaOf(build)}.${table}`),
  );

const snapshotStatement = {
  name: 'snapshot-of-comparison',
  text: 'set transaction isolation level repeatable read',
};
const firstLookStatement = { name: 'first-look-of-comparison', text: 'select pg_current_snapshot()' };

/**
 * Both models are at the same position for the moment in which a snapshot is taken; then the live one goes on, and the
 * snapshot is compared at leisure.
 */
const compare = (ports: RebuildPorts, rebuilt: Rebuild, follower: Follower): Promise<Comparison> =>
  retryWhileLocked(ports, { projection: rebuilt.build.projection, doing: 'comparing' }, async () => {
    const { database } = ports;
    const { topology, build, live } = rebuilt;
    const looked = Promise.withResolvers<void>();
    let comparing: Promise<Comparison> | undefined;
    await follower.comeClose();
    await holdLive(database, { ...build, version: live.version }, async (_tx, positions) => {
      await follower.advanceTo(positions);
      comparing = database.transaction(async (tx) => {
        await tx.execute(snapshotStatement);
        await tx.execute(firstLookStatement);
        looked.resolve();
        return compareModels(tx, modelTablesOf(topology), {
          schema: schemaOf(build),
          windowRetentionMs: ports.settings.windowRetentionMs,
        });
      });
      await Promise.race([looked.promise, comparing]);
    });
    if (!comparing) throw new Error('Nothing was compared');
    return comparing;
  });

const swapWhenPossible = async (
  ports: RebuildPorts,
  rebuilt: Rebuild,
  follower: Follower,
  comparison: Comparison | null,
): Promise<void> => {
  const { projection, version } = rebuilt.build;
  const audit = {
    who: ports.who,
    action: 'projections.swap' as const,
    target: {
      projection,
      build: version,
      replaces: rebuilt.live.version,
      from: rebuilt.build.source,
      rowsCompared: comparison?.rows ?? null,
      differences: comparison?.differences ?? null,
      notCompared: rebuilt.notCompared,
      setAside: rebuilt.setAside.count,
    },
  };
  await retryWhileLocked(ports, { projection, doing: 'swapping' }, async () => {
    await follower.comeClose();
    await holdLive(ports.database, { projection, version: rebuilt.live.version }, async (tx, positions) => {
      // Never behind what queries have seen: a token that was good for the model before is good for this one.
      await follower.advanceTo(positions);
      await requireWholeLogs(tx, rebuilt.build);
      await swapBuilds(tx, {
        projection,
        liveVersion: rebuilt.live.version,
        build: rebuilt.build,
        tables: modelTablesOf(rebuilt.topology).map(({ table }) => table),
        audit,
      });
    });
  });
};
