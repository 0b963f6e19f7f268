import type { Logger } from 'pino';
import type { Pause } from './pause.ts';

/** What the relays of this process are told, by operators and by what it finds out about itself, and what they say about it. */
export interface RelayControl {
  /** Grows when somebody says that things may have changed: whoever goes by what it remembers asks again. */
  readonly noticeCount: number;
  notice(): void;
  /** Whether they leave their work to other processes: they give their leases back and ask for none. */
  readonly isSittingOut: boolean;
  sitOut(isSittingOut: boolean): void;
  /** Told by each of them what it found; said in the log when it is news. */
  found(pause: Pause | null): void;
}

export const createRelayControl = (log: Logger): RelayControl => {
  let noticeCount = 0;
  let isSittingOut = false;
  let pausedSince: number | undefined;
  return {
    get noticeCount() {
      return noticeCount;
    },
    notice: () => {
      noticeCount++;
    },
    get isSittingOut() {
      return isSittingOut;
    },
    sitOut: (next) => {
      isSittingOut = next;
      noticeCount++;
    },
    found: (pause) => {
      const since = pause?.since.getTime();
      if (since === pausedSince) return;
      pausedSince = since;
      if (pause) log.warn(pause, 'The relay is paused: events wait until somebody lets it go on');
      else log.warn('The relay goes on after its pause');
    },
  };
};
