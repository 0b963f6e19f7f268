import type { Logger } from 'pino';
import type { Database } from '../postgres/database.ts';
import { byReason } from './by-reason.ts';
import type { DeadLetterNet } from './dead-letters.ts';
import {
  claimDueRows,
  dropFailedRows,
  giveBackClaims,
  loadSequences,
  noteFailures,
  type StoredFailedRow,
} from './failed-rows.ts';
import type { Lease } from './lease.ts';
import { createLeaseHolder } from './lease-holder.ts';
import { type Relay, startLoop } from './loop.ts';
import { type PublishPorts, publishPage } from './publish-page.ts';
import { createRelayControl, type RelayControl } from './relay-control.ts';
import { createWakeSignal } from './wake-signal.ts';

export interface RetrySettings {
  readonly retryIntervalMs: number;
  readonly retryBatchSizeMax: number;
  /** Tries after which an event is dead. */
  readonly retriesMax: number;
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
  readonly retryLeaseMs: number;
  /** Tries of an event that may end the process before it is given up. */
  readonly suspectAfterDeaths: number;
}

export interface RetryRelayOptions {
  readonly database: Database;
  readonly publishing: PublishPorts;
  readonly deadLetters: DeadLetterNet;
  readonly settings: RetrySettings;
  readonly holder: string;
  /** What operators tell this process; its own unless it shares one with others. */
  readonly control?: RelayControl;
  /** Called each time this process becomes the one that retries, before it sends anything. */
  readonly onLease?: () => Promise<void>;
  readonly log: Logger;
}

export const retryRelayLease = 'outbox-relay-retry';

/** Rows that are tried together: the first ones of aggregates, and what waits behind them. */
const sequenceRowsMax = 1000;

/** Tries failed rows again: each aggregate from its first row on, in order, until one does not get through. */
export const startRetryRelay = (options: RetryRelayOptions): Relay => {
  const { database, publishing, settings, holder, log, control = createRelayControl(log) } = options;
  const leaseHolder = createLeaseHolder({
    database,
    request: { name: retryRelayLease, holder, holdMs: settings.retryLeaseMs },
    keepMs: publishing.publishTimeoutMs + settings.retryLeaseMs + settings.retryIntervalMs,
    observer: publishing.observer,
    control,
    log,
    ...(options.onLease && { onTaken: options.onLease }),
  });
  const retryDue = createRound(options);
  return startLoop({
    wakeSignal: createWakeSignal(),
    log,
    step: async () => {
      const lease = await leaseHolder.hold();
      const sent = lease ? await retryDue(lease) : 0;
      return sent > 0 ? 0 : settings.retryIntervalMs;
    },
    onTrouble: (error) => publishing.observer?.troubleChanged(retryRelayLease, error),
    afterTrouble: () => settings.retryIntervalMs,
    finish: leaseHolder.release,
    says: {
      trouble: 'Failed events cannot be retried; the retry relay keeps trying',
      recovered: 'Failed events are retried again',
      unfinished: 'The retry relay did not give its lease back',
      level: 'warn',
    },
  });
};

/** One round; answers with how many events got through. */
const createRound = (options: RetryRelayOptions) => {
  const { database, publishing, settings } = options;
  /** Claims without an outcome. This process lives, so they are given back and do not count as deaths. */
  const owed: number[] = [];

  return async (lease: Lease): Promise<number> => {
    await giveBackClaims(database, owed);
    owed.length = 0;
    if (publishing.breaker.waitMs > 0) return 0;
    const claimed = await claimDueRows(database, { rowsMax: settings.retryBatchSizeMax, ...settings, lease });
    owed.push(...claimed.map(idOf));
    const heads = await giveUpFatal(options, claimed);
    const sentCount = heads.length > 0 ? await tryAgain(options, heads) : 0;
    owed.length = 0;
    return sentCount;
  };
};

/** An event that ended one process after the other is not tried once more. Answers with the other ones. */
const giveUpFatal = async (
  options: RetryRelayOptions,
  claimed: readonly StoredFailedRow[],
): Promise<readonly StoredFailedRow[]> => {
  const deathsMax = options.settings.suspectAfterDeaths;
  const isFatal = (row: StoredFailedRow): boolean => row.unansweredCount > deathsMax;
  const fatal = claimed.filter(isFatal);
  if (fatal.length > 0) {
    const error = `${deathsMax} processes ended while they tried to publish it`;
    await noteOutcome(
      options,
      fatal,
      fatal.map((row) => ({ row, error, tried: true, dead: true })),
    );
  }
  return claimed.filter((row) => !isFatal(row));
};

const tryAgain = async (options: RetryRelayOptions, heads: readonly StoredFailedRow[]): Promise<number> => {
  const { database, publishing } = options;
  // Alone means alone: should the process end again, it was this event and none of those behind it.
  const isSuspect = heads.some(({ unansweredCount }) => unansweredCount > 1);
  const rows = isSuspect ? heads : await loadSequences(database, heads, sequenceRowsMax);
  const { settledCount, failed, arrived } = await publishPage(publishing, rows, new Set());

  const notSent = new Set(failed.map(({ row }) => row.id));
  const sent = rows.filter(
    ({ id, eventId }, place) => !notSent.has(id) && (place < settledCount || arrived?.has(eventId)),
  );
  await dropFailedRows(database, sent.map(idOf));
  publishing.observer?.retried('sent', sent.length);
  await noteOutcome(options, rows, failed);
  const answered = new Set([...sent, ...failed.filter(({ tried }) => tried).map(({ row }) => row)].map(idOf));
  await giveBackClaims(
    database,
    heads.map(idOf).filter((id) => !answered.has(id)),
  );
  return sent.length;
};

const idOf = ({ id }: { readonly id: number }): number => id;

const noteOutcome = async (
  { database, publishing, deadLetters, settings, log }: RetryRelayOptions,
  rows: readonly StoredFailedRow[],
  failed: Awaited<ReturnType<typeof publishPage>>['failed'],
): Promise<void> => {
  const counts = new Map(rows.map(({ id, retryCount }) => [id, retryCount]));
  const failures = failed
    .filter(({ tried }) => tried)
    .map(({ row, error, dead }) => {
      const retryCount = counts.get(row.id) ?? 0;
      return { row, id: row.id, error, retryCount, dead: dead === true || retryCount >= settings.retriesMax };
    });
  await deadLetters.keep(
    failures.filter(({ dead }) => dead).map(({ row, error }) => ({ row, reason: error })),
  );
  await noteFailures(database, failures);
  publishing.observer?.retried('failed', failures.length);
  publishing.observer?.tampered(failed.filter(({ tampered }) => tampered).length);
  for (const alike of byReason(failures)) log.warn(alike, 'A retry failed');
};
