import type { Logger } from 'pino';
import type { RebuildProgress } from '../rebuild/rebuild-ports.ts';

const lineIntervalMs = 10_000;

/** A line in the log now and then, for a fill that nobody watches. */
export const logFillProgress = (
  log: Logger,
  clock: () => number = Date.now,
): ((progress: RebuildProgress) => void) => {
  const told = new Map<string, number>();
  return ({ projection, doing, events, fraction, reason }) => {
    const lastMs = told.get(projection);
    if (lastMs !== undefined && clock() - lastMs < lineIntervalMs) return;
    told.set(projection, clock());
    log.info(
      {
        projection,
        doing,
        events,
        ...(fraction !== undefined && { percent: Math.floor(fraction * 100) }),
        ...(reason !== undefined && { reason }),
      },
      'The read model is being filled from the journal',
    );
  };
};
