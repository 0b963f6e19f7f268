import type { Logger } from 'pino';
import { acquireLease, releaseLease } from '../lease.ts';
import { startLoop } from '../loop.ts';
import { createWakeSignal } from '../wake-signal.ts';
import { forgetReturned } from './ghost-event.ts';
import { type DueSearch, findDueSearch, finishSearch, seeTimeline } from './journal-timeline.ts';
import { countGhosts, ghostRemedy } from './list-ghosts.ts';
import { type SearchPorts, type SearchReport, searchTopics } from './search-topics.ts';

export const ghostWatchLease = 'outbox-ghost-watch';

export interface GhostWatchSettings {
  readonly intervalMs: number;
  /** Longer than brokers that are slow take to say what there is to read; it is renewed only between two reads. */
  readonly leaseMs: number;
  /** How far clocks may differ, and how old the time of a record may be when Kafka gets it. */
  readonly marginMs: number;
  /** When to search, counted from the notice: a relay that still reads from the old server may publish more. */
  readonly searchesAfterMs: readonly number[];
}

export const ghostWatchSettings: GhostWatchSettings = {
  intervalMs: 5000,
  leaseMs: 60_000,
  marginMs: 10 * 60_000,
  searchesAfterMs: [0, 60_000, 300_000],
};

export interface GhostWatchOptions extends SearchPorts {
  readonly holder: string;
  readonly settings?: GhostWatchSettings;
  readonly log: Logger;
}

/** Another process does it now, or this one ends. */
class WatchIsOver extends Error {}

/** Derived events can come back at any time; whether they have is a question that costs something per ghost. */
const forgetIntervalMs = 60_000;

/**
 * Notes where the journal is, and when it has come to another server or timeline, searches the topics for events that it
 * lost on the way. One process at a time does it. A search that is broken off is begun again, by whoever watches then.
 */
export const startGhostWatch = (options: GhostWatchOptions): { stop(): Promise<void> } => {
  const { database, holder, log, settings = ghostWatchSettings } = options;
  const { intervalMs, leaseMs, searchesAfterMs } = settings;
  const request = { name: ghostWatchLease, holder, holdMs: leaseMs };
  const wakeSignal = createWakeSignal();
  const ending = new AbortController();
  const told = new Set<number>();
  let lookedAt = 0;
  let forgotAt = 0;
  let isInTrouble = false;

  /** False when another process watches. */
  const look = async (): Promise<boolean> => {
    if (ending.signal.aborted || !(await acquireLease(database, request))) return false;
    await seeTimeline(database, settings);
    lookedAt = Date.now();
    return true;
  };

  const goOn = async (): Promise<void> => {
    const isDue = Date.now() - lookedAt >= intervalMs;
    if (ending.signal.aborted || (isDue && !(await look()))) throw new WatchIsOver();
  };

  const tellTrouble = (error: Error): never => {
    if (error instanceof WatchIsOver) throw error;
    if (!isInTrouble)
      log.warn(
        { err: error },
        'The topics could not be searched for events that the journal lost; it is tried again',
      );
    isInTrouble = true;
    throw error;
  };

  const search = async (due: DueSearch): Promise<void> => {
    if (!told.has(due.id)) tellNotice(log, due);
    told.add(due.id);
    const report = await searchTopics(options, { from: due.from, onProgress: goOn }).catch(tellTrouble);
    isInTrouble = false;
    await forgetReturned(database);
    const nextAfterMs = searchesAfterMs[due.searchesDone + 1] ?? null;
    await finishSearch(database, due, { unreadable: report.unreadable, nextAfterMs });
    tellSearch(log, report, await countGhosts(database));
  };

  const forgetNowAndThen = async (): Promise<void> => {
    if (Date.now() - forgotAt < forgetIntervalMs) return;
    forgotAt = Date.now();
    if ((await countGhosts(database)) > 0) await forgetReturned(database);
  };

  const step = async (): Promise<number> => {
    if (!(await look())) return intervalMs;
    await forgetNowAndThen();
    for (let due = await findDueSearch(database); due; due = await findDueSearch(database)) await search(due);
    return intervalMs;
  };

  const { stop } = startLoop({
    wakeSignal,
    log,
    step: () =>
      step().catch((error: Error) => {
        if (error instanceof WatchIsOver) return intervalMs;
        throw error;
      }),
    afterTrouble: () => intervalMs,
    finish: () => releaseLease(database, request),
    says: {
      trouble: 'It cannot be seen whether Kafka has events that the journal does not have',
      recovered: 'It can be seen again whether Kafka has events that the journal does not have',
      unfinished: 'The watch over ghost events did not give its lease back',
      level: 'debug',
    },
  });
  return {
    stop: () => {
      ending.abort();
      return stop();
    },
  };
};

const tellNotice = (log: Logger, { timeline, from }: DueSearch): void =>
  log.warn(
    { timeline, from },
    `The journal is on another server or timeline (${timeline}) than before, as after a failover or a restore. If it has lost its last events, Kafka may still have them: all records since ${from.toISOString()} are looked up now`,
  );

const tellSearch = (log: Logger, { records, unreadable, found }: SearchReport, open: number): void => {
  const details = { records, unreadable, found, open };
  if (found > 0)
    log.error(
      details,
      `Kafka has ${found} events that the journal does not have: they were published and then lost in a failover or a restore. ${ghostRemedy}`,
    );
  else log.info(details, `${records} records were looked up in the journal; no other event is missing there`);
  if (unreadable > 0)
    log.warn(
      details,
      `${unreadable} records could not be read: it is not known whether the journal has their events`,
    );
};
