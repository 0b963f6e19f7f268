import type { Logger } from 'pino';
import type { Database } from '../postgres/database.ts';
import type { DeadLetterNet } from './dead-letters.ts';
import { findHeldAggregates } from './find-held-aggregates.ts';
import { acquireLease, type Lease, releaseLease } from './lease.ts';
import { type Relay, startLoop } from './loop.ts';
import type { OutboxSource } from './outbox-source.ts';
import { type PublishPorts, publishPage } from './publish-page.ts';
import { createWakeSignal, type WakeSignal } from './wake-signal.ts';

export interface RelaySettings {
  readonly pollIntervalMs: number;
  readonly batchSizeMax: number;
  readonly retryDelayMs: number;
  readonly leaseMs: number;
}

export interface RelayOptions {
  readonly database: Database;
  readonly source: OutboxSource;
  readonly publishing: PublishPorts;
  readonly deadLetters: DeadLetterNet;
  readonly settings: RelaySettings;
  /** Names this process among the relays. */
  readonly holder: string;
  /** Called each time this process becomes the one that relays, before it reads anything. */
  readonly onLease?: (lease: Lease) => Promise<void>;
  /** For a source that tells when there is something new; otherwise the relay has one of its own. */
  readonly wakeSignal?: WakeSignal;
  readonly log: Logger;
}

export const mainRelayLease = 'outbox-relay-main';

/** Publishes the journal in order for as long as it holds the lease, and stands by otherwise. */
export const startRelay = (options: RelayOptions): Relay => {
  const { database, source, holder, log, settings, wakeSignal = createWakeSignal() } = options;
  return startLoop({
    wakeSignal,
    log,
    step: createStep(options),
    afterTrouble: () => {
      // The cursor has not moved: the same rows are tried again.
      source.forget();
      return settings.retryDelayMs;
    },
    finish: async () => {
      await source.close();
      await releaseLease(database, { name: mainRelayLease, holder });
    },
    says: {
      trouble: 'The relay cannot publish; it keeps trying and loses nothing',
      recovered: 'The relay publishes again',
      unfinished: 'The relay did not give its lease back',
    },
  });
};

/** One page from the source to Kafka; says how long there is nothing to do. */
const createStep = (options: RelayOptions) => {
  const { database, source, publishing, deadLetters, settings, log } = options;
  const { hold, lose } = createHold(options);

  return async (): Promise<number> => {
    const lease = await hold();
    if (!lease) return settings.leaseMs / 3;
    const { breaker } = publishing;
    if (breaker.waitMs > 0) return Math.min(breaker.waitMs, settings.leaseMs / 3);

    const page = await source.nextPage(settings.batchSizeMax);
    if (!page) return settings.pollIntervalMs;
    const held = await findHeldAggregates(database, page.rows);
    const { settledCount, failed, stopped } = await publishPage(publishing, page.rows, held);

    const dead = failed.filter((row) => row.dead);
    await deadLetters.keep(dead.map(({ row, error }) => ({ row, reason: error })));
    // The source passes rows only after every send has an answer: a crash before this line duplicates, it never loses.
    if (settledCount > 0 || page.rows.length === 0) {
      const isOurs = await source.settle(page, settledCount, failed, lease);
      if (!isOurs) {
        lose();
        throw new Error('The lease went to another relay while this one was publishing');
      }
    }
    for (const { row, error, tried } of failed) {
      if (tried)
        log.warn(
          { outboxId: row.id, eventType: row.eventType, reason: error },
          'An event could not be published; it is retried on its own',
        );
    }
    if (!stopped) return 0;
    if (stopped.because === 'circuit-open') {
      log.warn(
        { untried: page.rows.length - settledCount },
        'The circuit opened in the middle of a batch; the rest stays',
      );
      return breaker.waitMs;
    }
    throw stopped.cause ?? new Error('The brokers are in trouble');
  };
};

const createHold = ({ database, source, settings, holder, onLease, log }: RelayOptions) => {
  let lease: Lease | undefined;
  let renewAt = 0;
  /** What is in memory is no longer so: ask again before the next page. */
  const lose = (): void => {
    renewAt = 0;
  };
  const hold = async (): Promise<Lease | undefined> => {
    if (lease && Date.now() < renewAt) return lease;
    const renewed = await acquireLease(database, { name: mainRelayLease, holder, holdMs: settings.leaseMs });
    if (renewed && renewed.token !== lease?.token) {
      source.forget();
      await onLease?.(renewed);
      log.info({ token: renewed.token }, 'This process relays');
    }
    if (!renewed && lease) log.warn('Another process relays now; this one stands by');
    lease = renewed;
    renewAt = Date.now() + settings.leaseMs / 3;
    return lease;
  };
  return { hold, lose };
};
