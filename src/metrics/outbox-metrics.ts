import { Gauge } from 'prom-client';
import type { OutboxFigures } from '../relay/outbox-figures.ts';
import type { MetricRegistry } from './metric-registry.ts';

export interface OutboxMetricsOptions {
  readonly read: () => Promise<OutboxFigures>;
  /** Scrapes that come sooner are told what the last one was. */
  readonly intervalMs: number;
  /** A scrape that had to wait for the database longer than this goes without. */
  readonly timeoutMs: number;
}

interface Reading {
  readonly figures: OutboxFigures;
  readonly at: number;
}

/** The same whoever tells them: every process does, so that they do not go away together with the relay. */
export const measureOutbox = (metrics: MetricRegistry, options: OutboxMetricsOptions): void => {
  const show = createGauges(metrics);
  let last: Reading | undefined;
  let underWay: Promise<void> | undefined;

  const read = async (): Promise<void> => {
    try {
      last = { figures: await options.read(), at: Date.now() };
    } catch {
      last = undefined;
    } finally {
      underWay = undefined;
    }
  };

  metrics.onScrape(async () => {
    if (!last || Date.now() - last.at >= options.intervalMs) {
      // Never two at once: a database that does not answer is not asked by every scrape anew.
      underWay ??= read();
      const inTime = await within(options.timeoutMs, underWay);
      if (!inTime) last = undefined;
    }
    show(last);
  });
};

const createGauges = ({ register }: MetricRegistry): ((reading: Reading | undefined) => void) => {
  const gauge = (name: string, help: string): Gauge => new Gauge({ name, help, registers: [register] });
  const readable = gauge(
    'millrace_outbox_readable',
    '1 when the outbox could be looked at for this scrape; with 0 its other figures are missing',
  );
  const pending = gauge(
    'millrace_outbox_pending_events',
    'Committed events that are not published yet; estimated above 100,000',
  );
  const overdue = gauge('millrace_outbox_overdue_events', 'Pending events that are older than 5 minutes');
  const oldest = gauge('millrace_outbox_oldest_pending_age_seconds', 'Age of the oldest pending event');
  const failed = gauge(
    'millrace_outbox_failed_events',
    'Events that are tried again, and those that wait behind them',
  );
  const dead = gauge('millrace_outbox_dead_events', 'Events that wait for the decision of an operator');

  const paused = gauge('millrace_relay_paused', '1 while an operator has paused the relay');
  const ghosts = gauge(
    'millrace_relay_ghost_events',
    'Events in Kafka that the journal does not have, as after a failover, and that nobody has dismissed',
  );

  return (reading) => {
    readable.set(reading ? 1 : 0);
    if (!reading) {
      for (const unknown of [pending, overdue, oldest, failed, dead, paused, ghosts]) unknown.remove();
      return;
    }
    const { figures, at } = reading;
    pending.set(figures.pending);
    overdue.set(figures.overdue);
    const sinceReadMs = figures.pending > 0 ? Date.now() - at : 0;
    oldest.set((figures.oldestPendingAgeMs + sinceReadMs) / 1000);
    failed.set(figures.failed);
    dead.set(figures.dead);
    paused.set(figures.isPaused ? 1 : 0);
    ghosts.set(figures.ghosts);
  };
};

const within = async (timeMs: number, work: Promise<void>): Promise<boolean> => {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), timeMs);
  });
  try {
    return await Promise.race([work.then(() => true), timeout]);
  } finally {
    clearTimeout(timer);
  }
};
