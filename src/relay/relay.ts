import type { Logger } from 'pino';
import type { Database } from '../postgres/database.ts';
import { byReason } from './by-reason.ts';
import { CircuitOpen } from './circuit-breaker.ts';
import type { DeadLetterNet } from './dead-letters.ts';
import { type Lease, LeaseMoved } from './lease.ts';
import { createLeaseHolder, type LeaseHolder } from './lease-holder.ts';
import { type Relay, startLoop } from './loop.ts';
import type { MonotonicClock } from './monotonic-clock.ts';
import type { FailedRow, OutboxPage, OutboxSource } from './outbox-source.ts';
import { createPageBudget, type PageBudget } from './page-budget.ts';
import { type PageOutcome, type PublishPorts, preparePage, publishPrepared } from './publish-page.ts';
import { createReadyPages, type ReadyPage, type ReadyPages } from './ready-pages.ts';
import { createRelayControl, type RelayControl } from './relay-control.ts';
import type { RelayObserver } from './relay-observer.ts';
import { leaseOfShard, type Shard, singleShard } from './shard.ts';
import { createSuspicion, type Suspicion } from './suspicion.ts';
import { createWakeSignal, type WakeSignal } from './wake-signal.ts';

export interface RelaySettings {
  readonly pollIntervalMs: number;
  readonly batchSizeMax: number;
  readonly retryDelayMs: number;
  readonly leaseMs: number;
  /** Relays that may end at the same place before its events are tried one by one. */
  readonly suspectAfterDeaths: number;
}

export interface RelayOptions {
  readonly database: Database;
  /** The part of the journal that is relayed; all of it unless told. */
  readonly shard?: Shard;
  /** Gives the rows of that part. */
  readonly source: OutboxSource;
  readonly publishing: PublishPorts;
  readonly deadLetters: DeadLetterNet;
  readonly settings: RelaySettings;
  /** Names this process among the relays. */
  readonly holder: string;
  /** Called each time this process becomes the one that relays, before it reads anything. */
  readonly onLease?: (lease: Lease) => Promise<void>;
  /** Called when it is that no longer. */
  readonly onLeaseLost?: () => void;
  /** What operators tell this process; its own unless it shares one with others. */
  readonly control?: RelayControl;
  /** For a source that tells when there is something new; otherwise the relay has one of its own. */
  readonly wakeSignal?: WakeSignal;
  /** What the pages in memory may take, together with those of the process's other shards; enough for one relay unless told. */
  readonly pageBudget?: PageBudget;
  /** What the lease is timed by; that of the process unless told. */
  readonly clock?: MonotonicClock;
  readonly log: Logger;
}

/** More than the three pages that a relay has in memory at most can take. */
const pagesBytesMaxAlone = 256_000_000;

/** Publishes the journal, or a shard of it, in order for as long as it holds the lease, and stands by otherwise. */
export const startRelay = (options: RelayOptions): Relay => {
  const { source, publishing, shard = singleShard, log, settings, wakeSignal = createWakeSignal() } = options;
  const suspicion = createSuspicion({ ...options, shard, observer: publishing.observer });
  const pageBudget = options.pageBudget ?? createPageBudget({ bytesMax: pagesBytesMaxAlone });
  const readyPages = createReadyPages({ ...options, pageBudget }, suspicion);
  const forget = (): void => {
    source.forget();
    readyPages.forget();
    line.forget();
  };
  const holder = createHolder(options, suspicion, forget);
  const line = createPageLine(options, { holder, suspicion, readyPages, forget });
  return startLoop({
    wakeSignal,
    log,
    step: line.step,
    onTrouble: (error) => publishing.observer?.troubleChanged(leaseOfShard(shard), error),
    afterTrouble: (error) => {
      if (error instanceof CircuitOpen) return Math.min(error.waitMs, settings.leaseMs / 3);
      // The cursor has not moved: the same rows are tried again.
      forget();
      return settings.retryDelayMs;
    },
    finish: async () => {
      await line.finish();
      readyPages.forget();
      await source.close();
      await holder.release();
    },
    says: {
      get trouble() {
        return holder.isHeld
          ? 'The relay cannot publish; it keeps trying and loses nothing'
          : 'The relay cannot ask whether it is its turn; it keeps trying';
      },
      get recovered() {
        return holder.isHeld ? 'The relay publishes again' : 'The relay stands by again';
      },
      unfinished: 'The relay did not give its lease back',
    },
  });
};

interface PageLine {
  /** One page from the source to Kafka; says how long there is nothing to do. */
  step(): Promise<number>;
  /** What comes of the page that is being settled says nothing about those that are read from now on. */
  forget(): void;
  /** Waits for what is still under way. */
  finish(): Promise<void>;
}

/** While a page is on its way, the next one is read and encoded, and the one before it is settled. */
const createPageLine = (
  options: RelayOptions,
  parts: { holder: LeaseHolder; suspicion: Suspicion; readyPages: ReadyPages; forget: () => void },
): PageLine => {
  const { source, publishing, deadLetters, settings, log } = options;
  const { holder, suspicion, readyPages, forget } = parts;
  const { breaker, observer } = publishing;
  /** Of the page before: false when it was not ours any more. */
  let settling: Promise<boolean> = Promise.resolve(true);
  const arrivals = createArrivals();

  const publish = async (ready: ReadyPage, lease: Lease): Promise<PageOutcome> => {
    const { page, held, dropped } = ready;
    const publishingPage = suspicion.watch(page.rows, lease, async () => {
      const prepared = ready.prepared ?? (await preparePage(publishing, page.rows));
      return publishPrepared(publishing, prepared, { held, dropped, arrived: arrivals.of(lease) });
    });
    const [outcome] = await Promise.allSettled([publishingPage, readyPages.readAhead(page)]);
    if (outcome.status === 'rejected') throw outcome.reason;
    arrivals.note(lease, page, outcome.value);
    return outcome.value;
  };

  const settle = async (page: OutboxPage, outcome: PageOutcome, lease: Lease): Promise<boolean> => {
    const { settledCount, failed } = outcome;
    const before = settling;
    settling = Promise.resolve(true);
    if (!(await before)) return false;
    const dead = failed.filter((row) => row.dead);
    await deadLetters.keep(dead.map(({ row, error }) => ({ row, reason: error })));
    if (settledCount === 0 && page.rows.length > 0) return true;
    // The source passes rows only after every send has an answer: a crash before this line duplicates, it never loses.
    const isPassed = source.settle(page, settledCount, failed, lease);
    readyPages.settles(isPassed);
    const isAllIn = settledCount === page.rows.length && failed.length === 0;
    // What was made ready does not know of the aggregates that are held up from now on.
    if (!isAllIn) readyPages.forgetNext();
    if (!readyPages.hasNext) return isPassed;
    settling = isPassed;
    // Told when it is waited for, which is with the next page.
    settling.catch(() => {});
    return true;
  };

  /** What is in memory does not hold any more; what is stored does. */
  const startOver = (): number => {
    log.warn(
      'The lease went to another relay, or another database server took over; whoever relays goes on from what is stored',
    );
    holder.doubt();
    forget();
    return 0;
  };

  const step = (): Promise<number> =>
    takeStep().catch((error: unknown) => {
      if (error instanceof LeaseMoved) return startOver();
      throw error;
    });

  const takeStep = async (): Promise<number> => {
    const lease = await holder.hold();
    if (!lease) return settings.leaseMs / 3;
    if (breaker.waitMs > 0) throw new CircuitOpen(breaker.waitMs);

    const ready = await readyPages.next(lease);
    if (!ready) return settings.pollIntervalMs;
    // Asked for again at once, with a look at the lease in between.
    if (ready === 'no-room') return 0;
    const { page } = ready;
    const outcome = await publish(ready, lease);
    if (!(await settle(page, outcome, lease))) return startOver();
    const { settledCount, failed, stopped } = outcome;
    if (failed.length > 0) tellFailures(observer, failed);
    for (const alike of byReason(failed.filter(({ tried }) => tried)))
      log.warn(alike, 'Events could not be published; they are retried on their own');
    if (!stopped) return 0;
    if (stopped.because === 'circuit-open') {
      log.warn(
        { untried: page.rows.length - settledCount },
        'The circuit opened in the middle of a batch; the rest stays',
      );
      // Others may be waiting for its room.
      forget();
      throw new CircuitOpen(breaker.waitMs);
    }
    throw stopped.cause ?? new Error('The brokers are in trouble');
  };

  return {
    step,
    forget: () => {
      settling = settling.then(
        () => true,
        () => true,
      );
    },
    finish: async () => {
      await settling.catch((error: Error) =>
        log.warn({ err: error }, 'The last page could not be settled; the next relay publishes it again'),
      );
    },
  };
};

/** What a page that was stopped by the brokers has brought to Kafka all the same; its next try leaves that out. */
const createArrivals = () => {
  const none: ReadonlySet<string> = new Set();
  let token: number | undefined;
  let arrived = none;
  return {
    /** Under another lease, somebody may want it published again. */
    of: (lease: Lease): ReadonlySet<string> => (lease.token === token ? arrived : none),
    note: (lease: Lease, { rows }: OutboxPage, outcome: PageOutcome): void => {
      const known = lease.token === token ? arrived : none;
      ({ token } = lease);
      if (known.size === 0) {
        arrived = outcome.arrived ?? none;
        return;
      }
      // The page may have been a smaller one than that which was stopped.
      const passed = new Set(rows.map(({ eventId }) => eventId));
      arrived = new Set([...known].filter((id) => !passed.has(id)).concat([...(outcome.arrived ?? none)]));
    },
  };
};

const tellFailures = (observer: RelayObserver | undefined, failed: readonly FailedRow[]): void => {
  observer?.failed(failed.filter(({ tried }) => tried).length);
  observer?.tampered(failed.filter(({ tampered }) => tampered).length);
};

const createHolder = (options: RelayOptions, suspicion: Suspicion, forget: () => void): LeaseHolder => {
  const { database, settings, holder, clock, onLease, onLeaseLost, log } = options;
  const { shard = singleShard, publishing, control = createRelayControl(log) } = options;
  const { leaseMs, pollIntervalMs, retryDelayMs } = settings;
  return createLeaseHolder({
    database,
    request: { name: leaseOfShard(shard), holder, holdMs: leaseMs, ofShards: shard.of },
    // A page and the pause after it; beyond that there is another lease's time for what is slow around the send.
    keepMs: publishing.publishTimeoutMs + leaseMs + Math.max(pollIntervalMs, retryDelayMs),
    ...(clock && { clock }),
    observer: publishing.observer,
    control,
    log,
    onTaken: async (lease) => {
      forget();
      await onLease?.(lease);
      await suspicion.consider(lease);
      log.info({ token: lease.token, ...(shard.of > 1 && { shard }) }, 'This process relays');
    },
    onLost: ({ isPaused, isSittingOut }) => {
      forget();
      if (!isPaused && !isSittingOut) log.warn('Another process relays now; this one stands by');
      onLeaseLost?.();
    },
  });
};
