import { Counter, Gauge, Histogram } from 'prom-client';
import type { StreamsObserver } from '../streams/ports.ts';
import type { MetricRegistry } from './metric-registry.ts';

const delayBuckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 86_400];
const commitBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30];
const batchBuckets = [1, 10, 100, 500, 1000, 5000, 10_000, 50_000];

export interface ProjectorObserver extends StreamsObserver {
  /** Whether this process fills the projection's read model from the journal. */
  filling(projection: string, isFilling: boolean): void;
}

export const measureStreams = ({ register }: MetricRegistry): ProjectorObserver => {
  const registers = [register];
  const counter = <Label extends string>(name: string, help: string, ...labels: Label[]): Counter<Label> =>
    new Counter({ name, help, labelNames: labels, registers });
  const histogram = (name: string, help: string, buckets: number[]): Histogram<'projection'> =>
    new Histogram({ name, help, labelNames: ['projection'], buckets, registers });

  const records = counter(
    'millrace_streams_records_total',
    'Records that a projection has passed, whatever came of them',
    'projection',
    'topic',
  );
  const duplicates = counter(
    'millrace_streams_duplicates_total',
    'Records whose event had been handled before, and facts that had been told before',
    'projection',
  );
  const late = counter(
    'millrace_streams_late_total',
    'Records that came after their windows had closed',
    'projection',
  );
  const early = counter(
    'millrace_streams_early_total',
    'Records whose time lay too far in the future to be believed: they are in no window',
    'projection',
  );
  const letters = counter(
    'millrace_streams_dead_letters_total',
    'Records that went to a dead-letter topic',
    'projection',
    'kind',
  );
  const fenced = counter(
    'millrace_streams_fenced_total',
    'Batches that were dropped because another process has the partition',
    'projection',
  );
  const begunAnew = counter(
    'millrace_streams_log_breaks_total',
    'Partitions that a projection reads again, because the topic was made anew or its log has lost its end',
    'projection',
    'topic',
    'kind',
  );
  const waiting = new Gauge({
    name: 'millrace_streams_waiting',
    help: '1 while a projection waits for a server that does not answer',
    labelNames: ['projection'],
    registers,
  });
  const stopped = new Gauge({
    name: 'millrace_streams_stopped_partitions',
    help: 'Partitions that this process has and does not read, because records after their checkpoints are gone',
    labelNames: ['projection'],
    registers,
  });
  const filling = new Gauge({
    name: 'millrace_streams_filling',
    help: '1 while this process fills a read model from the journal',
    labelNames: ['projection'],
    registers,
  });
  const paused = new Gauge({
    name: 'millrace_streams_paused',
    help: '1 while an operator has paused the projection',
    labelNames: ['projection'],
    registers,
  });
  const delay = histogram(
    'millrace_streams_event_to_model_seconds',
    'Age of the newest event of a batch when it was in the read model',
    delayBuckets,
  );
  const commits = histogram(
    'millrace_streams_commit_seconds',
    'Time that the transaction of a batch took',
    commitBuckets,
  );
  const batches = histogram(
    'millrace_streams_batch_records',
    'Records that were applied together',
    batchBuckets,
  );

  return {
    applied: (told) => {
      const projection = told.projection.name;
      let sum = 0;
      for (const { topic, records: count } of told.places) {
        records.inc({ projection, topic }, count);
        sum += count;
      }
      duplicates.inc({ projection }, told.duplicates + told.knownFacts);
      late.inc({ projection }, told.late);
      early.inc({ projection }, told.early);
      if (told.delayMs !== undefined) delay.observe({ projection }, told.delayMs / 1000);
      commits.observe({ projection }, told.commitMs / 1000);
      batches.observe({ projection }, sum);
    },
    deadLettered: ({ name }, sent) => {
      for (const { kind } of sent) letters.inc({ projection: name, kind });
    },
    fenced: ({ name }) => fenced.inc({ projection: name }),
    waiting: ({ name }, isWaiting) => waiting.set({ projection: name }, isWaiting ? 1 : 0),
    begunAnew: ({ name }, { topic, logBreak }) => begunAnew.inc({ projection: name, topic, kind: logBreak }),
    stopped: ({ name }, places) => stopped.set({ projection: name }, places),
    filling: (projection, isFilling) => filling.set({ projection }, isFilling ? 1 : 0),
    paused: ({ name }, isPaused) => paused.set({ projection: name }, isPaused ? 1 : 0),
  };
};
