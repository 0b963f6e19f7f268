import type { Logger } from 'pino';
import type { Database } from '../../postgres/database.ts';
import { acquireLease, releaseLease } from '../lease.ts';
import { startLoop } from '../loop.ts';
import { createWakeSignal } from '../wake-signal.ts';
import { describeReason } from './describe-reason.ts';
import { explainStall, type StallSettings } from './explain-stall.ts';
import { readStallFacts, type StallFacts } from './read-stall-facts.ts';
import { identityOf, type StallReason } from './stall-reason.ts';

export const stallWatchLease = 'outbox-stall-watch';

/** More overdue events than these are worth waking somebody for. */
const overdueMax = 100;

export interface StallWatchOptions {
  readonly database: Database;
  readonly settings: StallSettings;
  readonly holder: string;
  readonly log: Logger;
}

/**
 * Says in the log why events are late: when the reasons change, and when it is over. One process at a time does it, of
 * whatever role, so that it is told once and also when no relay is left to tell it.
 */
export const startStallWatch = (options: StallWatchOptions): { stop(): Promise<void> } => {
  const { database, settings, holder, log } = options;
  const intervalMs = Math.min(10_000, Math.max(500, settings.stallAfterMs));
  const request = { name: stallWatchLease, holder, holdMs: 3 * intervalMs };
  const teller = createStallTeller(log);
  const { stop } = startLoop({
    wakeSignal: createWakeSignal(),
    log,
    step: async () => {
      if (await acquireLease(database, request)) {
        const facts = await readStallFacts(database, settings);
        teller.tell(explainStall(facts, settings), facts);
      } else {
        teller.forget();
      }
      return intervalMs;
    },
    afterTrouble: () => intervalMs,
    finish: () => releaseLease(database, request),
    says: {
      trouble: 'It cannot be seen whether events are late',
      recovered: 'It can be seen again whether events are late',
      unfinished: 'The watch over late events did not give its lease back',
      level: 'debug',
    },
  });
  return { stop };
};

/** Looks that must find everything on time before that is said: who is just so behind would be told of every few seconds. */
const goodLooksMin = 2;

export const createStallTeller = (log: Logger) => {
  let told = new Set<string>();
  let goodLooks = 0;
  let hasAlerted = false;

  const tellReasons = (reasons: readonly StallReason[], facts: StallFacts): void => {
    if (reasons.length === 0) {
      goodLooks++;
      if (told.size === 0 || goodLooks < goodLooksMin) return;
      log.warn('Events are on time again');
      told = new Set();
      return;
    }
    goodLooks = 0;
    const identities = new Set(reasons.map(identityOf));
    const isKnown = identities.size === told.size && [...identities].every((identity) => told.has(identity));
    told = identities;
    if (!isKnown) log.warn(detailsOf(reasons, facts), `Events are late: ${inWords(reasons)}`);
  };

  const alert = (reasons: readonly StallReason[], facts: StallFacts): void => {
    const overdue = facts.shards.reduce((sum, shard) => sum + shard.overdue, 0);
    const isOver = overdue <= overdueMax;
    if (!isOver && !hasAlerted) {
      log.error(
        { ...detailsOf(reasons, facts), overdue },
        `${overdue} events wait for more than 5 minutes: ${inWords(reasons)}`,
      );
    }
    hasAlerted = !isOver;
  };

  return {
    tell: (reasons: readonly StallReason[], facts: StallFacts): void => {
      tellReasons(reasons, facts);
      alert(reasons, facts);
    },
    /** Somebody else tells now; whoever takes over begins anew. */
    forget: (): void => {
      told = new Set();
      goodLooks = 0;
      hasAlerted = false;
    },
  };
};

const inWords = (reasons: readonly StallReason[]): string =>
  reasons
    .map(describeReason)
    .map(({ sentence, remedy }) => `${sentence}. ${remedy}.`)
    .join(' ') || 'nothing says why.';

const detailsOf = (reasons: readonly StallReason[], { shards }: StallFacts) => ({
  reasons,
  pending: shards.reduce((sum, { pending }) => sum + pending, 0),
});
