import type { StreamsObserver } from './ports.ts';

/** For who wants to hear of nothing, or of some things only. */
export const silentObserver: StreamsObserver = {
  applied: () => {},
  deadLettered: () => {},
  fenced: () => {},
  waiting: () => {},
  begunAnew: () => {},
  stopped: () => {},
  paused: () => {},
};
