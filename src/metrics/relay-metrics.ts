import { Counter, Gauge, Histogram } from 'prom-client';
import type { BreakerState } from '../relay/circuit-breaker.ts';
import type { DeadLetterCounts } from '../relay/dead-letters.ts';
import type { RelayObserver } from '../relay/relay-observer.ts';
import { CountingHistogram } from './counting-histogram.ts';
import type { MetricRegistry } from './metric-registry.ts';

const latencyBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800,
];
const pageBuckets = [1, 10, 100, 500, 1000, 5000, 10_000, 100_000];
const breakerStates: readonly BreakerState[] = ['closed', 'half-open', 'open'];

/** What is looked at when somebody asks, instead of being told at every change. */
export interface RelaySample {
  readonly circuit: BreakerState;
  readonly deadLetters: Readonly<DeadLetterCounts>;
}

export interface RelayMetrics extends RelayObserver {
  /** Where the state of the running relay is found at a scrape. */
  sampleFrom(sample: () => RelaySample): void;
}

export const measureRelay = (metrics: MetricRegistry): RelayMetrics => {
  const registers = [metrics.register];
  const latency = new CountingHistogram({
    name: 'millrace_relay_commit_to_publish_seconds',
    help: 'Age of events when Kafka acknowledged them, by the clocks of database and relay',
    buckets: latencyBuckets,
    registers,
  });
  const published = new Counter({
    name: 'millrace_relay_published_events_total',
    help: 'Events that Kafka acknowledged',
    labelNames: ['topic'],
    registers,
  });
  const pages = new Histogram({
    name: 'millrace_relay_page_events',
    help: 'Events read and published together',
    buckets: pageBuckets,
    registers,
  });
  return {
    ...countTrouble(metrics),
    published: (topic, events) => {
      const now = Date.now();
      published.inc({ topic }, events.length);
      for (const { createdAt } of events) latency.count(Math.max(0, now - createdAt.getTime()) / 1000);
    },
    pageRead: (events) => pages.observe(events),
    sampleFrom: sampleState(metrics),
  };
};

const countTrouble = ({ register }: MetricRegistry): Omit<RelayObserver, 'published' | 'pageRead'> => {
  const registers = [register];
  const failed = new Counter({
    name: 'millrace_relay_failed_events_total',
    help: 'Events that did not get through at their first try and were put aside',
    registers,
  });
  const retries = new Counter({
    name: 'millrace_relay_retries_total',
    help: 'Tries of events that had been put aside, by outcome',
    labelNames: ['outcome'],
    registers,
  });
  const tampered = new Counter({
    name: 'millrace_relay_integrity_failures_total',
    help: 'Events whose payload is not what the command wrote; they are never sent',
    registers,
  });
  const leases = new Gauge({
    name: 'millrace_relay_lease_held',
    help: 'Whether this process has the right to do this job',
    labelNames: ['lease'],
    registers,
  });
  const troubled = new Gauge({
    name: 'millrace_relay_troubled',
    help: 'Whether this job fails at the moment; it keeps trying',
    labelNames: ['lease'],
    registers,
  });
  const recoveries = new Counter({
    name: 'millrace_relay_stalled_recoveries_total',
    help: 'Times the work of a relay that had stopped answering was taken over',
    labelNames: ['lease'],
    registers,
  });
  const fatal = new Counter({
    name: 'millrace_relay_fatal_events_total',
    help: 'Events that were put aside because the processes that tried them ended',
    registers,
  });
  return {
    fatal: (events) => fatal.inc(events),
    failed: (events) => failed.inc(events),
    retried: (outcome, events) => retries.inc({ outcome }, events),
    tampered: (events) => tampered.inc(events),
    leaseChanged: (lease, isHeld) => leases.set({ lease }, isHeld ? 1 : 0),
    troubleChanged: (lease, error) => troubled.set({ lease }, error ? 1 : 0),
    recovered: (lease) => recoveries.inc({ lease }),
  };
};

const sampleState = ({ register, onScrape }: MetricRegistry): RelayMetrics['sampleFrom'] => {
  const registers = [register];
  const circuit = new Gauge({
    name: 'millrace_relay_circuit_state',
    help: '1 for the state that the circuit to Kafka is in',
    labelNames: ['state'],
    registers,
  });
  const deadLetters = new Counter({
    name: 'millrace_relay_dead_letters_total',
    help: 'Dead letters by where they could be kept: in their table, else in the backup file, else only in the log',
    labelNames: ['kept_in'],
    registers,
  });
  return (sample) =>
    onScrape(() => {
      const { circuit: current, deadLetters: counts } = sample();
      for (const state of breakerStates) circuit.set({ state }, state === current ? 1 : 0);
      deadLetters.reset();
      deadLetters.inc({ kept_in: 'table' }, counts.stored);
      deadLetters.inc({ kept_in: 'file' }, counts.backedUp);
      deadLetters.inc({ kept_in: 'log' }, counts.onlyAlerted);
    });
};
