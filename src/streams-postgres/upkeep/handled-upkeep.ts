import type { Logger } from 'pino';
import type { Database } from '../../postgres/database.ts';
import { codeOf } from '../../postgres/sql-error.ts';
import { dropHandledDays } from './drop-handled-days.ts';
import { expireEmptiedStates } from './expire-emptied-states.ts';
import { expireHandled } from './expire-handled.ts';
import { expireWindows, type WindowTable } from './expire-windows.ts';
import { openHandledDays } from './open-handled-days.ts';

const intervalMs = 60 * 60 * 1000;
const retryDelayMs = 60 * 1000;
const lockNotAvailable = '55P03';

export interface HandledUpkeepOptions {
  readonly database: Database;
  /** How long an event that was handled is remembered. */
  readonly retentionMs: number;
  /** Counts by window, and how long after its beginning a window is kept. */
  readonly windows?: { readonly tables: readonly WindowTable[]; readonly retentionMs: number };
  readonly log: Logger;
}

/** Opens days ahead, drops those that are over, expires the rest, windows that nobody asks for and states that are gone. */
export const keepUpHandled = async (
  { database, retentionMs, windows, log }: HandledUpkeepOptions,
  nowMs: number,
): Promise<void> => {
  const opened = await openHandledDays(database, nowMs);
  const dropped = await dropHandledDays(database, nowMs - retentionMs);
  const expired = await expireHandled(database, nowMs - retentionMs);
  const expiredWindows = windows
    ? await expireWindows(database, windows.tables, nowMs - windows.retentionMs)
    : 0;
  const expiredStates = await expireEmptiedStates(database, nowMs);
  if (opened.length + dropped.length + expired + expiredWindows + expiredStates > 0)
    log.debug({ opened, dropped, expired, expiredWindows, expiredStates }, 'Upkeep of what was handled');
};

/** At start and every hour, in every process; whoever comes first does it. The first round is over when this returns. */
export const startHandledUpkeep = async (
  options: HandledUpkeepOptions,
): Promise<{ stop(): Promise<void> }> => {
  const { log } = options;
  let stopping = false;
  let troubled = false;
  let timer: NodeJS.Timeout | undefined;

  const takeRound = async (): Promise<number> => {
    try {
      await keepUpHandled(options, Date.now());
      if (troubled) log.warn('The upkeep of what was handled goes on');
      troubled = false;
      return intervalMs;
    } catch (error) {
      // Somebody was busy in the table: there are days of time for the next try.
      const isBusy = codeOf(error) === lockNotAvailable;
      if (isBusy) log.debug({ err: error }, 'The upkeep of what was handled makes way');
      else if (!troubled)
        log.error({ err: error }, 'The upkeep of what was handled failed; it is tried again');
      troubled ||= !isBusy;
      return retryDelayMs;
    }
  };
  const plan = (delayMs: number): void => {
    if (stopping) return;
    timer = setTimeout(() => {
      round = takeRound().then(plan);
    }, delayMs);
  };
  let round = takeRound().then(plan);
  await round;
  return {
    stop: async () => {
      stopping = true;
      clearTimeout(timer);
      await round;
    },
  };
};
