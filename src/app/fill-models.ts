import type { Logger } from 'pino';
import { FillNeedsDecision } from '../rebuild/fill-live.ts';
import { remedyOfLoss } from '../rebuild/live-lack.ts';
import { whyNotRebuildable } from '../rebuild/model-tables.ts';
import { RebuildUnderWay } from '../rebuild/one-rebuild.ts';
import type { RebuildReport } from '../rebuild/rebuild-projection.ts';
import type { Topology } from '../streams/topology.ts';

export interface ModelFillsOptions {
  /** Undefined when the read model lacks nothing. */
  readonly fill: (topology: Topology, signal: AbortSignal) => Promise<RebuildReport | undefined>;
  /** Otherwise it is left to an operator. */
  readonly isAutomatic: boolean;
  readonly retryDelayMs: number;
  readonly onFilling: (projection: string, isFilling: boolean) => void;
  /** Another build may be live now. */
  readonly onFilled: (projection: string) => void;
  readonly log: Logger;
}

/** Read models that lack what the topics have lost are filled from the journal, in the background. */
export interface ModelFills {
  /** To be told as often as it is noticed: what is under way, or needs somebody's decision, is not begun again. */
  lacking(topology: Topology): void;
  /** The projection runs, and lacks nothing. */
  complete(projection: string): void;
  /** What is under way is left as it is; the next process goes on with it. */
  stop(): Promise<void>;
}

/** How soon it is looked again whether another process has filled it, or died. */
const othersWaitMs = 1000;
const retryDelayMaxMs = 60_000;

/** One at a time: a fill keeps a core and some connections busy, and all projections may need one at once. */
export const createModelFills = (options: ModelFillsOptions): ModelFills => {
  const { fill, isAutomatic, retryDelayMs, onFilling, onFilled, log } = options;
  const stopping = new AbortController();
  const noticed = new Set<string>();
  const timers = new Set<NodeJS.Timeout>();
  const waitsForOthers = new Set<string>();
  let line: Promise<void> = Promise.resolve();

  const enqueue = (topology: Topology, tries: number): void => {
    line = line.then(() => work(topology, tries));
  };
  const enqueueLater = (topology: Topology, tries: number, afterMs: number): void => {
    const timer = setTimeout(() => {
      timers.delete(timer);
      enqueue(topology, tries);
    }, afterMs);
    timers.add(timer);
  };

  const work = async (topology: Topology, tries: number): Promise<void> => {
    const { name: projection } = topology;
    if (stopping.signal.aborted || !noticed.has(projection)) return;
    onFilling(projection, true);
    try {
      const report = await fill(topology, stopping.signal);
      if (report)
        log.warn(
          { projection, build: report.build, events: report.events, seconds: Math.round(report.seconds) },
          'The read model was filled from the journal; the projection goes on with it',
        );
      noticed.delete(projection);
      waitsForOthers.delete(projection);
      onFilled(projection);
    } catch (error) {
      if (!stopping.signal.aborted) giveUpOrRetry(topology, tries, error as Error);
    } finally {
      onFilling(projection, false);
    }
  };

  const giveUpOrRetry = (topology: Topology, tries: number, error: Error): void => {
    const { name: projection } = topology;
    if (error instanceof FillNeedsDecision) log.error({ projection }, error.line);
    else if (error instanceof RebuildUnderWay) {
      if (!waitsForOthers.has(projection))
        log.info({ projection }, 'Another process fills the read model; this one waits for it');
      waitsForOthers.add(projection);
      enqueueLater(topology, 0, othersWaitMs);
    } else {
      const afterMs = Math.min(retryDelayMaxMs, retryDelayMs * 2 ** tries);
      log.error(
        { projection, err: error, afterMs },
        'The read model could not be filled from the journal; this is tried again, from where it was',
      );
      enqueueLater(topology, tries + 1, afterMs);
    }
  };

  return {
    lacking: (topology) => {
      const { name: projection } = topology;
      if (stopping.signal.aborted || noticed.has(projection)) return;
      noticed.add(projection);
      if (isAutomatic && whyNotRebuildable(topology) === undefined) {
        log.warn(
          { projection },
          'The read model lacks what the topics have lost; it is filled from the journal',
        );
        enqueue(topology, 0);
      } else
        log.error(
          { projection },
          `The read model lacks what the topics have lost, and does not go on by itself. ${remedyOfLoss(topology)}`,
        );
    },
    complete: (projection) => void noticed.delete(projection),
    stop: async () => {
      stopping.abort(new Error('The process is stopping'));
      for (const timer of timers) clearTimeout(timer);
      await line;
    },
  };
};
