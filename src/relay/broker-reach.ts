import type { Logger } from 'pino';
import type { CircuitBreaker } from './circuit-breaker.ts';
import type { MonotonicClock } from './monotonic-clock.ts';
import type { RelayControl } from './relay-control.ts';

/** How a relay fares with the brokers, as the others have to know it. */
export interface BrokerWord {
  /** For how long none of its sends has succeeded while it holds a lease; null when that is not so. */
  readonly failingMs: number | null;
  /** Brokers that answer it; null while nobody has to know. */
  readonly reached: number | null;
  readonly sitsOut: boolean;
}

/** What the others say. */
export interface OtherRelays {
  /** Whether this relay holds a lease. */
  readonly isHolder: boolean;
  /** Whether one of the others fails to send, or sits out because it did. */
  readonly areFailing: boolean;
  /** The most brokers that one of them reaches who does not sit out; null when none has looked. */
  readonly reachedMost: number | null;
}

export interface BrokerReach {
  readonly word: BrokerWord;
  /**
   * Decides whether this process sits out, and looks at the brokers where that is called for. Ends when it has looked, with
   * whether it saw something else than before.
   */
  consider(others: OtherRelays): Promise<boolean>;
}

export interface BrokerReachOptions {
  readonly breaker: Pick<CircuitBreaker, 'failingMs'>;
  /** How many brokers answer; asked only while some relay fails to send. Must not fail. */
  readonly countReachable: () => Promise<number>;
  readonly handOverAfterMs: number;
  readonly control: RelayControl;
  readonly clock: Pick<MonotonicClock, 'now'>;
  readonly log: Logger;
}

/**
 * Finds out that this process is cut off from brokers which others reach: then its leases are of more use to them. What
 * counts is the number of brokers that answer. When all relays reach the same, the trouble is the brokers', and nothing
 * moves; so a lease never goes to and fro between relays that fare alike.
 */
export const createBrokerReach = (options: BrokerReachOptions): BrokerReach => {
  const { breaker, countReachable, handOverAfterMs, control, clock, log } = options;
  let reached: number | null = null;
  let isLooking = false;
  let isHolder = false;
  /** Since when it is known that sends fail while a lease is held. */
  let failingSince: number | undefined;

  const isFailing = (): boolean => isHolder && breaker.failingMs > 0;
  const failingMs = (): number | null =>
    isFailing() ? Math.min(clock.now() - (failingSince ?? clock.now()), breaker.failingMs) : null;

  const look = async (): Promise<boolean> => {
    if (isLooking) return false;
    isLooking = true;
    const before = reached;
    reached = await countReachable();
    isLooking = false;
    return reached !== before;
  };

  const sitOut = (reachedByOther: number): void => {
    log.warn(
      { brokersReached: reached, reachedByOther, failingMs: failingMs() },
      'This relay cannot publish and another one reaches more brokers: it gives its leases back and sits out. Check the network between this process and Kafka',
    );
    control.sitOut(true);
  };
  const takePartAgain = (reachedByOther: number): void => {
    log.warn(
      { brokersReached: reached, reachedByOther },
      'No other relay reaches more brokers than this one any more: it takes part again',
    );
    control.sitOut(false);
  };
  const decide = (reachedByOther: number): void => {
    if (reached === null) return;
    const isCutOff = reachedByOther > reached;
    if (control.isSittingOut && !isCutOff) takePartAgain(reachedByOther);
    if (!control.isSittingOut && isCutOff && (failingMs() ?? 0) >= handOverAfterMs) sitOut(reachedByOther);
  };

  return {
    get word() {
      return { failingMs: failingMs(), reached, sitsOut: control.isSittingOut };
    },
    consider: async ({ isHolder: holdsNow, areFailing, reachedMost }) => {
      isHolder = holdsNow;
      failingSince = isFailing() ? (failingSince ?? clock.now()) : undefined;
      decide(reachedMost ?? 0);
      if (isFailing() || areFailing || control.isSittingOut) return look();
      reached = null;
      return false;
    },
  };
};
