import type { Logger } from 'pino';
import type { Database } from '../postgres/database.ts';
import { acquireLease, type Lease, type LeaseRequest, releaseLease } from './lease.ts';
import { loadPause } from './pause.ts';
import type { RelayControl } from './relay-control.ts';
import type { RelayObserver } from './relay-observer.ts';

export interface LeaseHolderOptions {
  readonly database: Database;
  readonly request: LeaseRequest;
  readonly observer: RelayObserver | undefined;
  readonly control: RelayControl;
  readonly log: Logger;
  /** Called each time the lease becomes ours, before anything is done with it. */
  readonly onTaken?: (lease: Lease) => Promise<void>;
  /** Called when it was ours and is not any more: another one has it, or there is a pause. */
  readonly onLost?: (why: { readonly isPaused: boolean }) => void;
}

export interface LeaseHolder {
  /** The lease, when it is ours: renewed after a third of its time, so that most calls ask nobody. */
  hold(): Promise<Lease | undefined>;
  /** Whether it was ours when it was last asked for. */
  readonly isHeld: boolean;
  /** What is in memory is no longer so: ask again before the next page. */
  doubt(): void;
  release(): Promise<void>;
}

export const createLeaseHolder = (options: LeaseHolderOptions): LeaseHolder => {
  const { database, observer, control, log, onTaken, onLost } = options;
  const request = { ...options.request, stopsForPause: true };
  let lease: Lease | undefined;
  let renewAt = 0;
  let toldToken = 0;
  let noticesHeard = control.noticeCount;

  const take = async (taken: Lease): Promise<void> => {
    const { lapsedFrom, token } = taken;
    if (lapsedFrom !== null && token !== toldToken) {
      toldToken = token;
      observer?.recovered(taken.name);
      log.warn(
        { lease: taken.name, formerHolder: lapsedFrom },
        'A relay stopped answering without giving its lease back; this process goes on with its work',
      );
    }
    await onTaken?.(taken);
  };

  return {
    get isHeld() {
      return lease !== undefined;
    },
    hold: async () => {
      if (lease && Date.now() < renewAt && noticesHeard === control.noticeCount) return lease;
      noticesHeard = control.noticeCount;
      const renewed = await acquireLease(database, request);
      const pause = renewed ? null : await loadPause(database);
      control.found(pause);
      // Refused, and no other relay has it: whoever looks should not take this one for the relay.
      if (pause && lease) await releaseLease(database, request);
      if (renewed && renewed.token !== lease?.token) await take(renewed);
      const isLost = lease !== undefined && !renewed;
      lease = renewed;
      observer?.leaseChanged(request.name, lease !== undefined);
      renewAt = Date.now() + request.holdMs / 3;
      if (isLost) onLost?.({ isPaused: pause !== null });
      return lease;
    },
    doubt: () => {
      renewAt = 0;
    },
    release: async () => {
      await releaseLease(database, request);
      observer?.leaseChanged(request.name, false);
    },
  };
};
