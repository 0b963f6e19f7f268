import type { Logger } from 'pino';
import type { Database } from '../postgres/database.ts';
import { acquireLease, type Lease, releaseLease } from './lease.ts';
import {
  afterDelta,
  isBetweenDeltas,
  loadOutboxCursor,
  moveOutboxCursor,
  type OutboxCursor,
} from './outbox-cursor.ts';
import { type PublishPorts, publishRows } from './publish-rows.ts';
import { type OutboxDelta, openOutboxDelta, readOutboxPage, resumeOutboxDelta } from './read-outbox-delta.ts';
import { createWakeSignal } from './wake-signal.ts';

export interface RelaySettings {
  readonly pollIntervalMs: number;
  readonly batchSizeMax: number;
  readonly publishTimeoutMs: number;
  readonly retryDelayMs: number;
  readonly leaseMs: number;
}

export interface RelayOptions {
  readonly database: Database;
  readonly publishing: PublishPorts;
  readonly settings: RelaySettings;
  /** Names this process among the relays. */
  readonly holder: string;
  readonly log: Logger;
}

export interface Relay {
  /** There may be something to publish: do not wait for the next poll. */
  wake(): void;
  stop(): Promise<void>;
}

export const mainRelayLease = 'outbox-relay-main';

/** Publishes the journal in order for as long as it holds the lease, and stands by otherwise. */
export const startRelay = (options: RelayOptions): Relay => {
  const wakeSignal = createWakeSignal();
  const { log, settings } = options;
  let stopping = false;
  let troubled = false;

  const run = async (): Promise<void> => {
    const position = createPosition(options);
    while (!stopping) {
      try {
        const progress = await position.advance();
        if (troubled) log.warn('The relay publishes again');
        troubled = false;
        if (progress === 'nothing-new') await wakeSignal.sleep(settings.pollIntervalMs);
        if (progress === 'standing-by') await wakeSignal.sleep(settings.leaseMs / 3);
      } catch (error) {
        // The cursor has not moved: the same rows are tried again. One line per trouble, not one per try.
        if (!troubled)
          log.error({ err: error }, 'The relay cannot publish; it keeps trying and loses nothing');
        troubled = true;
        position.forget();
        if (!stopping) await wakeSignal.sleep(settings.retryDelayMs);
      }
    }
    await releaseLease(options.database, { name: mainRelayLease, holder: options.holder });
  };

  const finished = run().catch((error: Error) =>
    log.error({ err: error }, 'The relay did not give its lease back'),
  );
  return {
    wake: wakeSignal.signal,
    stop: async () => {
      stopping = true;
      wakeSignal.signal();
      await finished;
    },
  };
};

type Progress = 'published' | 'nothing-new' | 'standing-by';

/** Where the relay stands. What it remembers can be forgotten at any time: the database has it, at most a page behind. */
const createPosition = ({ database, publishing, settings, holder, log }: RelayOptions) => {
  let lease: Lease | undefined;
  let leaseRenewAt = 0;
  let cursor: OutboxCursor | undefined;
  let delta: OutboxDelta | undefined;

  const forget = (): void => {
    lease = undefined;
    cursor = undefined;
    delta = undefined;
  };

  const hold = async (): Promise<Lease | undefined> => {
    if (lease && Date.now() < leaseRenewAt) return lease;
    const renewed = await acquireLease(database, { name: mainRelayLease, holder, holdMs: settings.leaseMs });
    if (renewed && renewed.token !== lease?.token) {
      log.info({ token: renewed.token }, 'This process relays');
      cursor = undefined;
      delta = undefined;
    }
    if (!renewed && lease) log.warn('Another process relays now; this one stands by');
    lease = renewed;
    leaseRenewAt = Date.now() + settings.leaseMs / 3;
    return lease;
  };

  const currentDelta = async (): Promise<OutboxDelta | undefined> => {
    if (delta) return delta;
    cursor ??= await loadOutboxCursor(database);
    delta = isBetweenDeltas(cursor)
      ? await openOutboxDelta(database, cursor)
      : await resumeOutboxDelta(database, cursor);
    return delta;
  };

  const moveTo = async (next: OutboxCursor, held: Lease): Promise<void> => {
    if (!(await moveOutboxCursor(database, next, held))) {
      throw new Error('The lease went to another relay while this one was publishing');
    }
    cursor = next;
  };

  const advance = async (): Promise<Progress> => {
    const held = await hold();
    if (!held) return 'standing-by';
    const open = await currentDelta();
    if (!open) return 'nothing-new';

    const rows = await readOutboxPage(database, open, settings.batchSizeMax);
    if (rows.length > 0) await within(settings.publishTimeoutMs, publishRows(publishing, rows));
    const lastId = rows.at(-1)?.id ?? open.finalId;

    // The cursor moves only after every send has an answer: a crash before this line duplicates, it never loses.
    const isComplete = lastId >= open.finalId;
    const next = { ...open.cursor, lastId };
    await moveTo(isComplete ? afterDelta(next) : next, held);
    delta = isComplete ? undefined : { ...open, cursor: next };
    return 'published';
  };

  return { advance, forget };
};

/** What is not known to have arrived in time counts as not sent. */
const within = async <T>(timeMs: number, work: Promise<T>): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`Kafka did not acknowledge a batch within ${timeMs} ms`)),
      timeMs,
    );
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
};
