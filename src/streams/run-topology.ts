import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { concatMap, lastValueFrom, Subject, tap } from 'rxjs';
import { type AppliedOffset, Lane, type LaneSettings } from './lane.ts';
import { PauseGate } from './pause-gate.ts';
import type {
  DeadLetters,
  PendingSince,
  RecordDecoder,
  RecordSource,
  StateStore,
  StreamsObserver,
} from './ports.ts';
import type { DecodedBatch, RawBatch } from './record.ts';
import { shieldedObserver } from './shielded-observer.ts';
import type { Topology } from './topology.ts';
import { createTurn, tickEveryMs } from './turn.ts';

export interface StreamsSettings extends LaneSettings {
  /** Records that are folded into one transaction at most. */
  readonly pollRecordsMax: number;
}

export interface RunOptions {
  readonly topology: Topology;
  readonly source: RecordSource;
  readonly decoder: RecordDecoder;
  readonly store: StateStore;
  readonly deadLetters: DeadLetters;
  readonly observer: StreamsObserver;
  /** What is still on its way to the topics: windows are not closed by the wall clock before it. */
  readonly pendingSince?: PendingSince;
  /** Where an operator holds the projection still; never, where this is missing. */
  readonly gate?: PauseGate;
  readonly settings: StreamsSettings;
  readonly log: Logger;
}

export interface RunningTopology {
  readonly failed: Promise<Error>;
  /** Waits for what is on its way, unless that is told to be in vain. */
  stop(options?: { readonly inVain: boolean }): Promise<void>;
}

/** Rounds on their way at once: one that is read, one that is computed, one that is committed. */
const roundsMax = 3;
/** How long a stop waits for what is on its way; what is not committed then is read again by whoever comes next. */
const stopWaitMs = 5000;

/** Runs a topology: take, decode, compute, commit, one round behind the other, and never more than a few at once. */
export const runTopology = async (options: RunOptions): Promise<RunningTopology> => {
  const { source, topology, gate = new PauseGate() } = options;
  const log = options.log.child({ projection: topology.name });
  const stopping = new AbortController();
  const failure = Promise.withResolvers<Error>();
  const observer = shieldedObserver(options.observer, log);
  const lane = new Lane({
    ...options,
    observer,
    gate,
    log,
    clock: Date.now,
    pause: (timeMs) => sleep(timeMs, undefined, { signal: stopping.signal }).catch(() => undefined),
    seek: (place, offset, after) => source.seek(place, offset, after),
    stopping: stopping.signal,
  });
  source.setPaused?.(gate.isPaused);
  await source.start({
    onAssigned: (places) => lane.assign(places),
    onRevoked: () => lane.revoke(),
    onGone: (records) => lane.gone(records),
  });
  const following = gate.changes.subscribe((isPaused) => {
    source.setPaused?.(isPaused);
    observer.paused(lane.projection, isPaused);
  });

  const rounds = startRounds({ ...options, log }, lane, () => gate.opened(stopping.signal));
  rounds.finished.catch((error: Error) => {
    if (!stopping.signal.aborted) failure.resolve(error);
  });
  return {
    failed: Promise.race([source.failed, failure.promise]),
    stop: async ({ inVain } = { inVain: false }) => {
      rounds.finish();
      const timer = setTimeout(() => stopping.abort(), inVain || gate.isPaused ? 0 : stopWaitMs);
      await rounds.finished.catch(() => undefined);
      clearTimeout(timer);
      stopping.abort();
      following.unsubscribe();
      await source.stop();
      lane.revoke();
    },
  };
};

interface Rounds {
  /** No further rounds are begun. */
  finish(): void;
  readonly finished: Promise<unknown>;
}

/** Each round needs a ticket and gives it back in the end, so that however slow the database is, little is in memory. */
const startRounds = (options: RunOptions, lane: Lane, mayGoOn: () => Promise<void>): Rounds => {
  const { source, settings } = options;
  const turn = createTurn({ lane, clock: Date.now });
  const tickets = new Subject<void>();
  let isFinishing = false;
  let underWay = roundsMax;
  const next = (): void => {
    if (!isFinishing) tickets.next();
    else if (--underWay === 0) tickets.complete();
  };

  const finished = lastValueFrom(
    tickets.pipe(
      concatMap(async () => {
        await mayGoOn();
        const limits = { recordsMax: settings.pollRecordsMax, waitMs: tickEveryMs };
        const batches = isFinishing ? [] : await source.take(limits);
        return {
          batches,
          quiet: lane.quietPlaces((place, askedAfterMs) => source.isCaughtUp(place, askedAfterMs)),
        };
      }),
      concatMap(async ({ batches, quiet }) => ({
        batches: await Promise.all(batches.map((batch) => decode(options.decoder, batch))),
        quiet,
      })),
      concatMap(turn),
      concatMap(async (settled) => {
        const applied: AppliedOffset[] = [];
        for (const round of settled) applied.push(...(await lane.settle(round)));
        return applied;
      }),
      tap((applied) => {
        if (applied.length > 0) source.reportApplied(applied);
        next();
      }),
    ),
    { defaultValue: [] },
  );
  for (let ticket = 0; ticket < roundsMax; ticket++) tickets.next();
  return {
    finish: () => {
      isFinishing = true;
    },
    finished,
  };
};

/** What cannot be decoded now may be later: the lane waits at that record, in that place only. */
export const decode = async (decoder: RecordDecoder, batch: RawBatch): Promise<DecodedBatch> => {
  const { topic, partition, reading, fromOffset, nextOffset, log, logBreak } = batch;
  const place = { topic, partition, reading, fromOffset, log };
  if (logBreak) return { ...place, records: [], nextOffset, logBreak };
  try {
    return { ...(await decoder.decode(batch)), log };
  } catch (error) {
    return { ...place, records: [], nextOffset: fromOffset, stopped: error as Error };
  }
};
