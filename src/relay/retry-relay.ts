import type { Logger } from 'pino';
import type { Database } from '../postgres/database.ts';
import type { DeadLetterNet } from './dead-letters.ts';
import {
  claimDueRows,
  dropFailedRows,
  giveBackClaims,
  loadSequences,
  noteFailures,
  type StoredFailedRow,
} from './failed-rows.ts';
import { acquireLease, type Lease, releaseLease } from './lease.ts';
import { type Relay, startLoop } from './loop.ts';
import { type PublishPorts, publishPage } from './publish-page.ts';
import { createWakeSignal } from './wake-signal.ts';

export interface RetrySettings {
  readonly retryIntervalMs: number;
  readonly retryBatchSizeMax: number;
  /** Tries after which an event is dead. */
  readonly retriesMax: number;
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
  readonly retryLeaseMs: number;
}

export interface RetryRelayOptions {
  readonly database: Database;
  readonly publishing: PublishPorts;
  readonly deadLetters: DeadLetterNet;
  readonly settings: RetrySettings;
  readonly holder: string;
  readonly log: Logger;
}

export const retryRelayLease = 'outbox-relay-retry';

/** Rows of one aggregate that are taken along when its first row gets through. */
const sequenceRowsMax = 1000;

/** Tries failed rows again: each aggregate from its first row on, in order, until one does not get through. */
export const startRetryRelay = (options: RetryRelayOptions): Relay => {
  const { database, settings, holder, log } = options;
  return startLoop({
    wakeSignal: createWakeSignal(),
    log,
    step: async () => {
      const request = { name: retryRelayLease, holder, holdMs: settings.retryLeaseMs };
      const lease = await acquireLease(database, request);
      const sent = lease ? await retryDue(options, lease) : 0;
      return sent > 0 ? 0 : settings.retryIntervalMs;
    },
    afterTrouble: () => settings.retryIntervalMs,
    finish: () => releaseLease(database, { name: retryRelayLease, holder }),
    says: {
      trouble: 'Failed events cannot be retried; the retry relay keeps trying',
      recovered: 'Failed events are retried again',
      unfinished: 'The retry relay did not give its lease back',
    },
  });
};

/** One round; answers with how many events got through. */
const retryDue = async (options: RetryRelayOptions, lease: Lease): Promise<number> => {
  const { database, publishing, settings } = options;
  if (publishing.breaker.waitMs > 0) return 0;
  const heads = await claimDueRows(database, { rowsMax: settings.retryBatchSizeMax, ...settings, lease });
  if (heads.length === 0) return 0;
  const rows = await loadSequences(database, heads, sequenceRowsMax);
  const { settledCount, failed, stopped } = await publishPage(publishing, rows, new Set());

  const notSent = new Set(failed.map(({ row }) => row.id));
  const sent = rows.slice(0, settledCount).filter(({ id }) => !notSent.has(id));
  await dropFailedRows(
    database,
    sent.map(({ id }) => id),
  );
  await noteOutcome(options, rows, failed);
  if (stopped) {
    const untried = new Set(rows.slice(settledCount).map(({ id }) => id));
    await giveBackClaims(
      database,
      heads.map(({ id }) => id).filter((id) => untried.has(id)),
    );
  }
  return sent.length;
};

const noteOutcome = async (
  { database, deadLetters, settings, log }: RetryRelayOptions,
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
  for (const { row, error, retryCount } of failures) {
    log.warn({ outboxId: row.id, eventType: row.eventType, retryCount, reason: error }, 'A retry failed');
  }
};
