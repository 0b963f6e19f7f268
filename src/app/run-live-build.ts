import type { Logger } from 'pino';
import { whyNotRebuildable } from '../rebuild/model-tables.ts';
import { PauseGate } from '../streams/pause-gate.ts';
import type { RunningTopology } from '../streams/run-topology.ts';
import type { Topology } from '../streams/topology.ts';
import type { LiveBuild } from '../streams-postgres/builds/live-build.ts';
import { resumeCommand } from '../streams-postgres/pauses/projection-pause.ts';
import type { ModelFills } from './fill-models.ts';

/** How soon a process notices that another build is live, when no batch of its own has told it before. */
const lookIntervalMs = 1000;

export interface LiveBuildOptions {
  readonly topology: Topology;
  readonly findLive: () => Promise<LiveBuild>;
  /** Told with every look as long as the live build waits to be filled, and once when it is run. */
  readonly fills: Pick<ModelFills, 'lacking' | 'complete'>;
  readonly takeOver: (live: LiveBuild) => Promise<TakeOver>;
  /** Runs the topology with what is kept under its version, and holds it still at the gate. */
  readonly run: (topology: Topology, gate: PauseGate) => Promise<RunningTopology>;
  readonly log: Logger;
}

/** Whether this version of the definition goes on with what another one has built. */
export type TakeOver =
  | 'done'
  /** The build is busy just now; the next look tries again. */
  | 'later'
  /** It has to be built anew, or a newer version has it. */
  | 'no';

export interface RunningBuild extends RunningTopology {
  /** Somebody has reason to believe that another build is live, or that the projection is paused. */
  look(): void;
}

/**
 * Runs the live build of a projection, and the next one when that has taken its place. One that waits to be filled is not run. A
 * build that another version of the definition fills is left to the processes that have that version: this one waits until its
 * own has been built, unless it can take over. Whether the projection is paused comes with every look; where the database does
 * not answer, what was known last holds.
 */
export const runLiveBuild = async (options: LiveBuildOptions): Promise<RunningBuild> => {
  const { topology, findLive, fills, takeOver, run } = options;
  const log = options.log.child({ projection: topology.name });
  const failure = Promise.withResolvers<Error>();
  let current: { readonly live: LiveBuild; readonly running: RunningTopology } | undefined;
  let waitsFor: number | undefined;
  let isStopping = false;
  const gate = new PauseGate();

  const notePause = ({ pause }: LiveBuild): void => {
    if (gate.isPaused === (pause !== null)) return;
    if (pause)
      log.warn(
        { ...pause },
        `The projection is paused: it reads and commits nothing until ${resumeCommand(topology.name)}`,
      );
    else log.warn('The projection goes on after its pause');
    gate.set(pause !== null);
  };

  const noteOther = ({ definitionVersion }: LiveBuild): void => {
    if (waitsFor === definitionVersion) return;
    waitsFor = definitionVersion;
    log.warn(
      { live: definitionVersion, own: topology.version },
      whyNotRebuildable(topology) === undefined
        ? 'The live read model is that of another version of this projection; this process waits until its own is built with millrace rebuild'
        : `A newer version of this projection has taken over; this process waits. To go back to its own: npx millrace topologies adopt ${topology.name}`,
    );
  };

  const follow = async (): Promise<void> => {
    const live = await findLive();
    notePause(live);
    if (isStopping) return;
    if (live.awaitsFill) fills.lacking(topology);
    if (current && isSame(live, current.live)) return;
    const before = current;
    current = undefined;
    await before?.running.stop({ inVain: true });
    if (live.awaitsFill) return;
    if (live.definitionVersion !== topology.version) {
      const outcome = await takeOver(live);
      if (outcome === 'done') return follow();
      return outcome === 'no' ? noteOther(live) : undefined;
    }
    waitsFor = undefined;
    fills.complete(topology.name);
    if (before?.live.version === live.version)
      log.info('Partitions were added, or checkpoints moved; reading goes on with them');
    else if (before)
      log.info({ build: live.version }, 'Another build of the read model is live; going on with it');
    const running = await run({ ...topology, version: live.version }, gate);
    current = { live, running };
    void running.failed.then((error) => {
      if (current?.running === running) failure.resolve(error);
    });
  };

  let looking: Promise<void> = follow();
  await looking;
  const look = (): void => {
    looking = looking.then(async () => {
      if (isStopping) return;
      try {
        await follow();
      } catch (error) {
        // The next look tries again. What is run meanwhile, if anything, commits nothing that does not belong to it.
        log.debug({ err: error }, 'The live build cannot be found or run now');
      }
    });
  };
  const timer = setInterval(look, lookIntervalMs);
  return {
    failed: failure.promise,
    look,
    stop: async (how) => {
      isStopping = true;
      clearInterval(timer);
      await looking;
      await current?.running.stop(how);
    },
  };
};

/** A consumer that was started before partitions were added notices them minutes later. */
const isSame = (a: LiveBuild, b: LiveBuild): boolean =>
  a.version === b.version &&
  a.definitionVersion === b.definitionVersion &&
  a.topicGrowths === b.topicGrowths &&
  a.checkpointResets === b.checkpointResets &&
  a.awaitsFill === b.awaitsFill;
