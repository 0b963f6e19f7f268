import type { Logger } from 'pino';
import type { Database } from '../postgres/database.ts';
import { acquireLease, type Lease, type LeaseRequest, releaseLease } from './lease.ts';
import { type MonotonicClock, processClock } from './monotonic-clock.ts';
import { letRelaysReconsider, loadPause } from './pause.ts';
import type { RelayControl } from './relay-control.ts';
import type { RelayObserver } from './relay-observer.ts';

export interface LeaseHolderOptions {
  readonly database: Database;
  readonly request: LeaseRequest;
  /**
   * Time after the last time it was asked for in which the lease is renewed by itself. A job that takes longer is stuck:
   * another process may have its lease then.
   */
  readonly keepMs: number;
  readonly observer: RelayObserver | undefined;
  readonly control: RelayControl;
  /** That of the process unless told. */
  readonly clock?: MonotonicClock;
  readonly log: Logger;
  /** Called each time the lease becomes ours, before anything is done with it. */
  readonly onTaken?: (lease: Lease) => Promise<void>;
  /** Called when it was ours and is not any more: another one has it, or this process may not have it for now. */
  readonly onLost?: (why: { readonly isPaused: boolean; readonly isSittingOut: boolean }) => void;
}

export interface LeaseHolder {
  /** The lease, when it is ours: renewed by itself in between, so that most calls ask nobody. */
  hold(): Promise<Lease | undefined>;
  /** Whether it was ours when it was last asked for. */
  readonly isHeld: boolean;
  /** What is in memory is no longer so: ask again before the next page. */
  doubt(): void;
  release(): Promise<void>;
}

/** A lease that lasts as long as somebody asks for it now and then: while a page is on its way, a timer renews it. */
export const createLeaseHolder = (options: LeaseHolderOptions): LeaseHolder => {
  const { database, observer, control, clock = processClock, onTaken, onLost } = options;
  const request = { ...options.request, stopsForPause: true };
  const tell = createTakeOverReport(options);
  const renewal = createRenewal({ ...options, request, clock });
  let lease: Lease | undefined;
  let noticesHeard = control.noticeCount;

  const drop = (why: { isPaused: boolean; isSittingOut: boolean }): void => {
    const isLost = lease !== undefined;
    lease = undefined;
    void renewal.end();
    observer?.leaseChanged(request.name, false);
    if (isLost) onLost?.(why);
  };

  const giveBack = async (): Promise<void> => {
    // A renewal that is under way would take it again for nobody.
    await renewal.end();
    await releaseLease(database, request);
    // One that sits out gives it to a relay that is waiting for it.
    if (control.isSittingOut) await letRelaysReconsider(database);
  };

  const ask = async (): Promise<Lease | undefined> => {
    const renewed = await acquireLease(database, request);
    const pause = renewed ? null : await loadPause(database);
    control.found(pause);
    if (!renewed) {
      if (pause && lease) {
        await renewal.end();
        await releaseLease(database, request);
      }
      drop({ isPaused: pause !== null, isSittingOut: false });
      return undefined;
    }
    renewal.begin(renewed);
    if (renewed.token !== lease?.token) {
      tell(renewed);
      await onTaken?.(renewed);
    }
    lease = renewed;
    observer?.leaseChanged(request.name, true);
    return lease;
  };

  return {
    get isHeld() {
      return lease !== undefined;
    },
    hold: async () => {
      if (control.isSittingOut) {
        if (lease) await giveBack();
        drop({ isPaused: false, isSittingOut: true });
        return undefined;
      }
      if (lease && renewal.isFresh() && noticesHeard === control.noticeCount) return lease;
      noticesHeard = control.noticeCount;
      return ask();
    },
    doubt: renewal.doubt,
    release: async () => {
      await giveBack();
      observer?.leaseChanged(request.name, false);
    },
  };
};

/** Says once of each lease that whoever had it before has not given it back. */
const createTakeOverReport = ({ observer, log }: LeaseHolderOptions): ((taken: Lease) => void) => {
  let toldToken = 0;
  return ({ name, token, lapsedFrom }) => {
    if (lapsedFrom === null || token === toldToken) return;
    toldToken = token;
    observer?.recovered(name);
    log.warn(
      { lease: name, formerHolder: lapsedFrom },
      'A relay stopped answering without giving its lease back; this process goes on with its work',
    );
  };
};

interface Renewal {
  /** This lease has just been had. */
  begin(lease: Lease): void;
  /** Whether it need not be asked for; to be called by whoever uses it, since it is kept for that one. */
  isFresh(): boolean;
  doubt(): void;
  /** Comes back when a renewal that was under way has its answer, whatever that is. */
  end(): Promise<void>;
}

/** Renews a lease by timer, in thirds of its time, for as long as somebody uses it. */
const createRenewal = (options: {
  database: Database;
  request: LeaseRequest;
  keepMs: number;
  clock: MonotonicClock;
  log: Logger;
}): Renewal => {
  const { database, request, keepMs, clock, log } = options;
  const pauseMs = request.holdMs / 3;
  let freshUntil = 0;
  let usedAt = 0;
  let token = 0;
  let callOff: () => void = () => {};
  let renewing: Promise<void> = Promise.resolve();
  /** Grows with each beginning and end: what a renewal before it finds out is void. */
  let turn = 0;

  const schedule = (): void => {
    callOff();
    callOff = clock.after(pauseMs, () => {
      renewing = renew(turn);
    });
  };

  const renew = async (mine: number): Promise<void> => {
    if (clock.now() - usedAt > keepMs) {
      log.warn(
        { lease: request.name, keepMs },
        'A job takes longer than its lease is kept for it; another process may go on with its work',
      );
      freshUntil = 0;
      return;
    }
    const renewed = await acquireLease(database, request).catch((error: Error) => {
      log.debug({ err: error, lease: request.name }, 'The lease could not be renewed; that is tried again');
      return error;
    });
    if (mine !== turn) return;
    const isOurs = renewed instanceof Error || renewed?.token === token;
    // Refused, or ours anew after somebody had it: whoever uses it finds out when it has finished what it does.
    if (!isOurs) freshUntil = 0;
    else if (!(renewed instanceof Error)) freshUntil = clock.now() + 2 * pauseMs;
    if (renewed) schedule();
  };

  return {
    begin: (lease) => {
      turn++;
      ({ token } = lease);
      usedAt = clock.now();
      // A timer that could not renew it in time leaves another third of its time for asking.
      freshUntil = clock.now() + 2 * pauseMs;
      schedule();
    },
    isFresh: () => {
      usedAt = clock.now();
      return clock.now() < freshUntil;
    },
    doubt: () => {
      freshUntil = 0;
    },
    end: async () => {
      turn++;
      callOff();
      await renewing;
    },
  };
};
