import type { Database } from '../postgres/database.ts';
import { findWithheld, type Withheld } from './find-withheld.ts';
import type { Lease } from './lease.ts';
import type { OutboxPage, OutboxSource } from './outbox-source.ts';
import { type PreparedPage, type PublishPorts, preparePage } from './publish-page.ts';
import type { Suspicion } from './suspicion.ts';

/** A page with all that can be known and made before it is its turn. */
export interface ReadyPage extends Withheld {
  readonly page: OutboxPage;
  /** Its records; not made beforehand while an event is suspected to end the process. */
  readonly prepared: PreparedPage | undefined;
}

export interface ReadyPages {
  next(lease: Lease): Promise<ReadyPage | undefined>;
  /** Makes the page after this one ready, where there is one. What fails in that fails again, and is told, when it is its turn. */
  readAhead(page: OutboxPage): Promise<void>;
  /** Whether the next page is ready already. */
  readonly hasNext: boolean;
  /** What was made ready is not so any more. */
  forget(): void;
}

export interface ReadyPagesOptions {
  readonly database: Database;
  readonly source: OutboxSource;
  readonly publishing: PublishPorts;
}

export const createReadyPages = (options: ReadyPagesOptions, suspicion: Suspicion): ReadyPages => {
  const { database, source, publishing } = options;
  let ahead: ReadyPage | undefined;

  const makeReady = async (page: OutboxPage): Promise<ReadyPage> => {
    publishing.observer?.pageRead(page.rows.length);
    const [withheld, prepared] = await Promise.all([
      findWithheld(database, page.rows),
      suspicion.isWatching ? undefined : preparePage(publishing, page.rows),
    ]);
    return { page, ...withheld, prepared };
  };

  return {
    next: async (lease) => {
      const page = await source.nextPage(suspicion.rowsMax, lease);
      const made = ahead;
      ahead = undefined;
      // The source may have forgotten and read again since.
      if (made && page && isSame(made.page, page) && !suspicion.isWatching) return made;
      return page && makeReady(page);
    },
    readAhead: async (page) => {
      if (suspicion.isWatching) return;
      const next = await source.pageAfter(page, suspicion.rowsMax);
      ahead = next && (await makeReady(next));
    },
    get hasNext() {
      return ahead !== undefined;
    },
    forget: () => {
      ahead = undefined;
    },
  };
};

/** Pages that begin with the same row were read once; the newer one may have more of them. */
const isSame = (one: OutboxPage, other: OutboxPage): boolean =>
  one === other || (one.rows.length > 0 && one.rows[0] === other.rows[0]);
