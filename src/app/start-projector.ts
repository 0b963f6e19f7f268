import type { Logger } from 'pino';
import type { Config } from '../config/settings.ts';
import { appendDerived } from '../journal/append-derived.ts';
import { createDeadLetterTopics } from '../kafka/dead-letter-topic.ts';
import { createRecordProducer } from '../kafka/record-producer.ts';
import { createRecordSource } from '../kafka/record-source.ts';
import { toldTables } from '../live/live-message.ts';
import { changesChannel } from '../live/read-changes.ts';
import type { ProjectorObserver } from '../metrics/streams-metrics.ts';
import { OperatorError } from '../operator-error.ts';
import { createChannelAnnouncer } from '../postgres/announcer.ts';
import type { ForgetsProducts } from '../projections/product-cache.ts';
import { cataloguedEvent } from '../projections/rekeyed.ts';
import { adoptBuild } from '../rebuild/adopt-build.ts';
import { modelTablesOf, whyNotRebuildable } from '../rebuild/model-tables.ts';
import { createEnvelopeDecoder } from '../registry/envelope-decoder.ts';
import { findOldestUnsent } from '../relay/oldest-unsent.ts';
import type { PauseGate } from '../streams/pause-gate.ts';
import type { StateStore } from '../streams/ports.ts';
import { type RunningTopology, runTopology } from '../streams/run-topology.ts';
import { type Topology, topicsOf } from '../streams/topology.ts';
import { findLiveBuild, type LiveBuild } from '../streams-postgres/builds/live-build.ts';
import { createPartitionGuard } from '../streams-postgres/partitions/partition-guard.ts';
import { createPostgresStateStore } from '../streams-postgres/postgres-state-store.ts';
import { storeProjectionActions } from '../streams-postgres/store-projection-actions.ts';
import { startForgettingChanges } from '../streams-postgres/upkeep/forget-changes.ts';
import { startHandledUpkeep } from '../streams-postgres/upkeep/handled-upkeep.ts';
import { requireHandledRetention } from '../streams-postgres/upkeep/require-handled-retention.ts';
import type { Adapters } from './adapters.ts';
import { createModelFills, type ModelFills } from './fill-models.ts';
import { logFillProgress } from './fill-progress.ts';
import { openFirstBuilds } from './open-first-builds.ts';
import { consumerGroupOf, eventActionsOf, projections } from './projections.ts';
import { rebuildToolsOf } from './rebuild-tools.ts';
import { type RunningBuild, runLiveBuild, type TakeOver } from './run-live-build.ts';
import { serviceName } from './service-name.ts';
import type { Part } from './start-app.ts';
import { tellingOfLogBreaks } from './tell-of-log-breaks.ts';

export interface ProjectorOptions {
  readonly adapters: Adapters;
  readonly cache: ForgetsProducts;
  readonly config: Config;
  readonly observer: ProjectorObserver;
  readonly databaseUrl: string;
  readonly log: Logger;
  /** Instead of every projection there is. */
  readonly topologies?: readonly Topology[];
}

/** Runs every projection in this process; others of its kind share the partitions. */
export const startProjector = async (options: ProjectorOptions): Promise<Part> => {
  const { adapters, config } = options;
  const { database } = adapters;
  const log = options.log.child({ part: 'projector' });
  requireHandledRetention({
    handledMs: config.streams.handledRetentionMs,
    topicMs: config.topics.retentionMs,
    dlqMs: config.topics.dlqRetentionMs,
  });
  const topologies =
    options.topologies ?? chosen(projections(config, options.cache), config.streams.projections);
  const upkeep = await startHandledUpkeep({
    database,
    retentionMs: config.streams.handledRetentionMs,
    windows: {
      tables: topologies
        .flatMap(modelTablesOf)
        .flatMap(({ table, windowColumn }) => (windowColumn === undefined ? [] : [{ table, windowColumn }])),
      retentionMs: config.streams.windowRetentionMs,
    },
    log,
  });
  await openFirstBuilds(adapters, config, topologies, log);
  const producer = createRecordProducer(adapters.kafka, config.kafka);
  const builds = new Map<string, RunningBuild>();
  const announcer = createChannelAnnouncer(database, {
    channel: changesChannel,
    intervalMs: config.live.announceIntervalMs,
    log,
  });
  const store = createPostgresStateStore({
    database,
    definitions: new Map(topologies.map(({ name, version }) => [name, version])),
    onTurnedAway: ({ name }) => builds.get(name)?.look(),
    appendDerived: (tx, events) =>
      appendDerived(
        tx,
        serviceName,
        events.map((derived) => ({ ...derived, event: cataloguedEvent(derived) })),
      ),
    told: { tables: toldTables, onChanged: announcer.announce },
  });
  const forgetting = startForgettingChanges({ database, retentionMs: config.live.retentionMs, log });
  const fills = fillsOf(options, (projection) => builds.get(projection)?.look());
  const runBuild = async (
    definition: Topology,
    topology: Topology,
    gate: PauseGate,
  ): Promise<RunningTopology> => {
    await storeProjectionActions(database, topology, eventActionsOf(topology));
    const observer = noticingLoss(options.observer, fills, definition);
    return run({ ...options, observer, log, topologies }, { topology, gate, store, producer });
  };
  const running = await startAll(topologies, async (topology) => {
    const build = await runLiveBuild({
      topology,
      findLive: async () => {
        const live = await findLiveBuild(database, topology.name);
        if (!live) throw new Error(`${topology.name} has no live build`);
        return live;
      },
      fills,
      takeOver: (live) => takeOver(options, topology, live),
      run: (build, gate) => runBuild(topology, build, gate),
      log,
    });
    builds.set(topology.name, build);
    return build;
  }).catch(async (error: unknown) => {
    await fills.stop();
    throw error;
  });
  return {
    failed: Promise.race(running.map(({ failed }) => failed)),
    stop: async () => {
      await fills.stop();
      await Promise.all(running.map((topology) => topology.stop()));
      await Promise.all([producer.close(), upkeep.stop(), forgetting.stop()]);
    },
  };
};

const fillsOf = (
  { adapters, databaseUrl, config, observer, log }: ProjectorOptions,
  onFilled: (projection: string) => void,
): ModelFills =>
  createModelFills({
    fill: (topology, signal) =>
      rebuildToolsOf({
        adapters,
        endpoints: { databaseUrl },
        config,
        who: whoIs(adapters),
        log: log.child({ part: 'projector' }),
        onProgress: logFillProgress(log.child({ part: 'projector' })),
        signal,
      }).fill(topology),
    // Who starts at the end of the topics has chosen to do without history.
    isAutomatic: config.streams.fillFromJournal === 'auto' && config.streams.startFrom === 'earliest',
    retryDelayMs: config.streams.retryDelayMs,
    onFilling: (projection, isFilling) => observer.filling(projection, isFilling),
    onFilled,
    log: log.child({ part: 'projector' }),
  });

const whoIs = ({ processName }: Adapters): string => `projector:${processName}`;

/** A partition that stands still because records are gone is a reason to fill the read model. */
const noticingLoss = (
  observer: ProjectorObserver,
  fills: ModelFills,
  topology: Topology,
): ProjectorObserver => ({
  ...observer,
  stopped: (projection, places) => {
    if (places > 0) fills.lacking(topology);
    observer.stopped(projection, places);
  },
});

/** Where a definition cannot be built anew, a newer version goes on where the one before stood. */
const takeOver = async (
  { adapters, log }: ProjectorOptions,
  topology: Topology,
  live: LiveBuild,
): Promise<TakeOver> => {
  const { database } = adapters;
  if (topology.version < live.definitionVersion || whyNotRebuildable(topology) === undefined) return 'no';
  const adoption = await adoptBuild({ database, who: whoIs(adapters) }, topology, live);
  if (adoption === 'busy') return 'later';
  if (adoption)
    log.warn(
      adoption,
      'This version of the projection goes on where the one before stood; states of steps that it does not have are dropped',
    );
  return 'done';
};

/** A name that nobody has would leave a projection standing still without a word. */
const chosen = (all: readonly Topology[], names: string): readonly Topology[] => {
  if (names === 'all') return all;
  return names.split(',').map((name) => {
    const found = all.find((topology) => topology.name === name);
    if (found) return found;
    throw new OperatorError(`MILLRACE_PROJECTIONS names ${name}, which is no projection`, {
      remedy: `There are ${all.map((topology) => topology.name).join(', ')}`,
      exitCode: 2,
    });
  });
};

/** All of them, or none is left running. */
const startAll = async (
  topologies: readonly Topology[],
  start: (topology: Topology) => Promise<RunningTopology>,
): Promise<readonly RunningTopology[]> => {
  const started = await Promise.allSettled(topologies.map(start));
  const running = started.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const failure = started.find((result) => result.status === 'rejected');
  if (!failure) return running;
  await Promise.all(running.map((topology) => topology.stop()));
  throw failure.reason;
};

interface Running {
  readonly topology: Topology;
  readonly gate: PauseGate;
  readonly store: StateStore;
  readonly producer: ReturnType<typeof createRecordProducer>;
}

const run = (
  { adapters, config, observer, log, topologies }: ProjectorOptions,
  { topology, gate, store, producer }: Running,
): Promise<RunningTopology> => {
  const { streams } = config;
  const count = topologies?.length ?? projections(config).length;
  return runTopology({
    topology,
    source: createRecordSource(adapters.kafka, {
      groupId: consumerGroupOf(config, topology.name),
      topics: topicsOf(topology),
      ...streams,
      queueBytesMax: Math.ceil(streams.queueBytesMax / count),
      heldPlaces: createPartitionGuard(adapters.database, topology, log.child({ projection: topology.name })),
      log: log.child({ projection: topology.name }),
    }),
    decoder: createEnvelopeDecoder(adapters.registry),
    store,
    deadLetters: createDeadLetterTopics(producer),
    observer: tellingOfLogBreaks(observer, { database: adapters.database, log }),
    gate,
    pendingSince: async () => (await findOldestUnsent(adapters.database))?.getTime(),
    settings: {
      ...streams,
      handledIdsMax: Math.ceil(streams.handledIdsMax / count),
      statesMax: Math.ceil(streams.statesMax / count),
    },
    log,
  });
};
