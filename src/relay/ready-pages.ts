import type { Database } from '../postgres/database.ts';
import { findWithheld, type Withheld } from './find-withheld.ts';
import type { Lease } from './lease.ts';
import type { OutboxPage, OutboxSource } from './outbox-source.ts';
import type { PageBudget, PageRoom } from './page-budget.ts';
import { type PreparedPage, type PublishPorts, preparePage } from './publish-page.ts';
import type { Suspicion } from './suspicion.ts';

/** A page with all that can be known and made before it is its turn. */
export interface ReadyPage extends Withheld {
  readonly page: OutboxPage;
  /** Its records; not made beforehand while an event is suspected to end the process. */
  readonly prepared: PreparedPage | undefined;
}

export interface ReadyPages {
  /** Undefined when there is none; 'no-room' when the other shards' pages left no room for it for a while. */
  next(lease: Lease): Promise<ReadyPage | 'no-room' | undefined>;
  /**
   * Makes the page after this one ready, where there is one and room for it. What fails in that fails again, and is told,
   * when it is its turn.
   */
  readAhead(page: OutboxPage): Promise<void>;
  /** Whether the next page is ready already. */
  readonly hasNext: boolean;
  /** The page that was given last is being settled, and needs its room until that is done. */
  settles(isPassed: Promise<boolean>): void;
  /** What was made ready is not so any more; the source has it still. */
  forgetNext(): void;
  /** The source has forgotten all of its pages. */
  forget(): void;
}

export interface ReadyPagesOptions {
  readonly database: Database;
  readonly source: OutboxSource;
  readonly publishing: PublishPorts;
  readonly pageBudget: PageBudget;
  readonly settings: { readonly leaseMs: number };
}

/** What one row takes beside its payload: its other columns, and what the process makes of them. */
const rowBytes = 500;

export const createReadyPages = (options: ReadyPagesOptions, suspicion: Suspicion): ReadyPages => {
  const { database, source, publishing, pageBudget, settings } = options;
  let ahead: ReadyPage | undefined;
  /** Of the page that was given and is not being settled yet, and of the one after it. */
  let room: PageRoom | undefined;
  let roomAhead: PageRoom | undefined;

  const makeReady = async (page: OutboxPage): Promise<ReadyPage> => {
    publishing.observer?.pageRead(page.rows.length);
    const [withheld, prepared] = await Promise.all([
      findWithheld(database, page.rows),
      suspicion.isWatching ? undefined : preparePage(publishing, page.rows),
    ]);
    return { page, ...withheld, prepared };
  };

  const take = async (lease: Lease): Promise<ReadyPage | undefined> => {
    const page = await source.nextPage(suspicion.rowsMax, lease);
    const made = ahead;
    ahead = undefined;
    // The source may have forgotten and read again since.
    if (made && page && isSame(made.page, page) && !suspicion.isWatching) return made;
    return page && makeReady(page);
  };

  return {
    next: async (lease) => {
      if (!room) {
        room = roomAhead ?? (await pageBudget.reserve(settings.leaseMs / 3));
        roomAhead = undefined;
      }
      if (!room) return 'no-room';
      const ready = await take(lease);
      if (ready) room.fit(bytesOf(ready));
      else {
        room.free();
        room = undefined;
      }
      return ready;
    },
    readAhead: async (page) => {
      if (suspicion.isWatching) return;
      roomAhead ??= pageBudget.reserveSpare();
      if (!roomAhead) return;
      const next = await source.pageAfter(page, suspicion.rowsMax);
      ahead = next && (await makeReady(next));
      if (ahead) roomAhead.fit(bytesOf(ahead));
      else {
        roomAhead.free();
        roomAhead = undefined;
      }
    },
    get hasNext() {
      return ahead !== undefined;
    },
    settles: (isPassed) => {
      const free = room?.free;
      room = undefined;
      if (free) isPassed.then(free, free);
    },
    forgetNext: () => {
      ahead = undefined;
    },
    forget: () => {
      ahead = undefined;
      room?.free();
      roomAhead?.free();
      room = undefined;
      roomAhead = undefined;
    },
  };
};

const bytesOf = ({ page, prepared }: ReadyPage): number => {
  let bytes = page.rows.length * rowBytes;
  for (const record of prepared?.records ?? []) if (record) bytes += record.valueEnd - record.valueStart;
  return bytes;
};

/** Pages that begin with the same row were read once; the newer one may have more of them. */
const isSame = (one: OutboxPage, other: OutboxPage): boolean =>
  one === other || (one.rows.length > 0 && one.rows[0] === other.rows[0]);
