import type { Logger } from 'pino';
import type { Database } from '../postgres/database.ts';
import type { Lease } from './lease.ts';
import { forgetDeaths, noteDeath, noteSuspect } from './noted-deaths.ts';
import type { OutboxRow } from './outbox-source.ts';
import type { PageOutcome } from './publish-page.ts';
import type { RelayObserver } from './relay-observer.ts';
import type { Shard } from './shard.ts';

export interface SuspicionOptions {
  readonly database: Database;
  readonly shard: Shard;
  readonly settings: {
    readonly suspectAfterDeaths: number;
    readonly batchSizeMax: number;
    readonly leaseMs: number;
  };
  readonly observer: RelayObserver | undefined;
  readonly log: Logger;
}

/**
 * Finds the event that ends every process that comes to it. As long as nobody dies nothing is asked or written; after
 * some deaths at one position its events are tried one by one, each named before, so that the next death tells which.
 */
export interface Suspicion {
  /** To be called with each lease, before anything is read with it. */
  consider(lease: Lease): Promise<void>;
  /** Whether events are tried one by one. */
  readonly isWatching: boolean;
  /** How many rows a page may have at most. */
  readonly rowsMax: number;
  /** Publishes a page, watched while that is called for. */
  watch(rows: readonly OutboxRow[], lease: Lease, publish: () => Promise<PageOutcome>): Promise<PageOutcome>;
}

/** One that is being settled, one on its way, and one that is made ready. */
const pagesAtOnce = 3;

export const createSuspicion = (options: SuspicionOptions): Suspicion => {
  const { database, shard, settings, observer, log } = options;
  let consideredToken = 0;
  /** So many events are still tried one by one: the deaths were within as many from the position on. */
  let watchedLeft = 0;
  let culprit: { readonly id: number; readonly deaths: number } | undefined;

  const putAside = (row: OutboxRow, deaths: number): PageOutcome => {
    culprit = undefined;
    observer?.fatal(1);
    log.error(
      { outboxId: row.id, eventId: row.eventId, eventType: row.eventType, deaths },
      'An event ended every process that came to it; it is put aside, with those behind it, and the others go on',
    );
    const error = `The process that tried to publish it ended, after ${deaths - 1} others had ended at the same place`;
    return { settledCount: 1, failed: [{ row, error, tried: true, unansweredCount: 1 }] };
  };

  const tryAlone = async (
    row: OutboxRow,
    lease: Lease,
    publish: () => Promise<PageOutcome>,
  ): Promise<PageOutcome> => {
    await noteSuspect(database, { lease, shard, suspectId: row.id });
    let outcome: PageOutcome | undefined;
    try {
      outcome = await publish();
      return outcome;
    } finally {
      // It lives. Once the cursor has passed the row, what was noted of it is void anyway.
      if (outcome?.settledCount !== 1) await noteSuspect(database, { lease, shard, suspectId: null });
    }
  };

  const endWatch = async (lease: Lease): Promise<void> => {
    watchedLeft = 0;
    await forgetDeaths(database, lease);
    log.info({ lease: lease.name }, 'Nothing more ended the relay here; events are tried together again');
  };

  return {
    consider: async (lease) => {
      if (lease.lapsedFrom === null || lease.token === consideredToken) return;
      const { deaths, suspectId } = await noteDeath(database, { lease, shard, leaseMs: settings.leaseMs });
      consideredToken = lease.token;
      culprit = suspectId === null ? undefined : { id: suspectId, deaths };
      watchedLeft = deaths >= settings.suspectAfterDeaths ? pagesAtOnce * settings.batchSizeMax : 0;
      if (watchedLeft > 0) {
        log.warn(
          { lease: lease.name, deaths },
          'Relays have ended here one after the other without getting on; events are tried one by one now',
        );
      }
    },
    get isWatching() {
      return watchedLeft > 0;
    },
    get rowsMax() {
      return watchedLeft > 0 ? 1 : settings.batchSizeMax;
    },
    watch: async (rows, lease, publish) => {
      const [row] = rows;
      if (watchedLeft === 0 || !row) return publish();
      const outcome =
        culprit?.id === row.id ? putAside(row, culprit.deaths) : await tryAlone(row, lease, publish);
      watchedLeft -= outcome.settledCount;
      if (watchedLeft <= 0) await endWatch(lease);
      return outcome;
    },
  };
};
