import { expect } from 'chai';
import { CountingHistogram } from '../../../src/metrics/counting-histogram.ts';
import { createMetricRegistry, type MetricRegistry } from '../../../src/metrics/metric-registry.ts';
import { measureOutbox } from '../../../src/metrics/outbox-metrics.ts';
import { measureProcess } from '../../../src/metrics/process-metrics.ts';
import { measureRelay } from '../../../src/metrics/relay-metrics.ts';
import type { OutboxFigures } from '../../../src/relay/outbox-figures.ts';

const samples = async (metrics: MetricRegistry): Promise<ReadonlyMap<string, number>> => {
  const { text } = await metrics.scrape();
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
};

describe('counting histogram', () => {
  it('prints what the library prints for the same values', async () => {
    const { Histogram, Registry } = await import('prom-client');
    const config = { name: 'age_seconds', help: 'Age', buckets: [0.01, 0.1, 1] };
    const ours = createMetricRegistry();
    const counting = new CountingHistogram({ ...config, registers: [ours.register] });
    const theirs = new Registry();
    const library = new Histogram({ ...config, registers: [theirs] });
    for (const value of [0, 0.01, 0.011, 0.1, 0.5, 1, 1.5, 100]) {
      counting.count(value);
      library.observe(value);
    }
    expect((await ours.scrape()).text).to.equal(await theirs.metrics());
    const bySample = ({
      metricName,
      labels,
      value,
    }: {
      metricName?: string;
      labels: object;
      value: number;
    }) => ({
      metricName,
      labels,
      value,
    });
    expect((await counting.get()).values.map(bySample)).to.deep.equal(
      (await library.get()).values.map(bySample),
    );
  });
});

describe('metrics of the relay', () => {
  it('count events by topic and by age', async () => {
    const metrics = createMetricRegistry();
    const relay = measureRelay(metrics);
    const aged = (ageMs: number) => ({ createdAt: new Date(Date.now() - ageMs) });
    relay.published('order-events', [aged(40_000), aged(-5000)]);
    relay.published('like-events', [aged(40_000)]);
    relay.pageRead(3);
    const seen = await samples(metrics);
    expect(seen.get('millrace_relay_published_events_total{topic="order-events"}')).to.equal(2);
    expect(seen.get('millrace_relay_published_events_total{topic="like-events"}')).to.equal(1);
    // A clock that is behind makes an event look as if it came from the future: it is new, not an error.
    expect(seen.get('millrace_relay_commit_to_publish_seconds_bucket{le="0.001"}')).to.equal(1);
    expect(seen.get('millrace_relay_commit_to_publish_seconds_bucket{le="30"}')).to.equal(1);
    expect(seen.get('millrace_relay_commit_to_publish_seconds_bucket{le="60"}')).to.equal(3);
    expect(seen.get('millrace_relay_commit_to_publish_seconds_count')).to.equal(3);
    expect(seen.get('millrace_relay_page_events_bucket{le="10"}')).to.equal(1);
  });

  it('tell the state of the circuit and where dead letters went, as they are at the scrape', async () => {
    const metrics = createMetricRegistry();
    const relay = measureRelay(metrics);
    const deadLetters = { stored: 1, backedUp: 0, onlyAlerted: 0 };
    relay.sampleFrom(() => ({ circuit: 'open', deadLetters }));
    await metrics.scrape();
    deadLetters.backedUp = 2;
    const seen = await samples(metrics);
    expect(seen.get('millrace_relay_circuit_state{state="open"}')).to.equal(1);
    expect(seen.get('millrace_relay_circuit_state{state="closed"}')).to.equal(0);
    expect(seen.get('millrace_relay_dead_letters_total{kept_in="table"}')).to.equal(1);
    expect(seen.get('millrace_relay_dead_letters_total{kept_in="file"}')).to.equal(2);
  });
});

describe('metrics of the outbox', () => {
  const figures: OutboxFigures = {
    pending: 7,
    overdue: 2,
    oldestPendingAgeMs: 400_000,
    failed: 1,
    dead: 3,
    isPaused: true,
    ghosts: 4,
  };

  it('are looked up at a scrape, and not again before their time', async () => {
    const metrics = createMetricRegistry();
    let reads = 0;
    const read = async () => {
      reads++;
      return figures;
    };
    measureOutbox(metrics, { read, intervalMs: 60_000, timeoutMs: 1000 });
    expect(reads).to.equal(0);
    await metrics.scrape();
    const seen = await samples(metrics);
    expect(reads).to.equal(1);
    expect(seen.get('millrace_outbox_readable')).to.equal(1);
    expect(seen.get('millrace_outbox_pending_events')).to.equal(7);
    expect(seen.get('millrace_outbox_overdue_events')).to.equal(2);
    expect(seen.get('millrace_outbox_failed_events')).to.equal(1);
    expect(seen.get('millrace_outbox_dead_events')).to.equal(3);
    expect(seen.get('millrace_outbox_oldest_pending_age_seconds')).to.be.at.least(400);
    expect(seen.get('millrace_relay_paused')).to.equal(1);
    expect(seen.get('millrace_relay_ghost_events')).to.equal(4);
  });

  it('are left out when the database cannot be read, and come back with it', async () => {
    const metrics = createMetricRegistry();
    let isUp = false;
    const read = async () => {
      if (!isUp) throw new Error('connect ECONNREFUSED');
      return figures;
    };
    measureOutbox(metrics, { read, intervalMs: 0, timeoutMs: 1000 });
    const without = await samples(metrics);
    expect(without.get('millrace_outbox_readable')).to.equal(0);
    expect([...without.keys()]).to.deep.equal(['millrace_outbox_readable']);
    isUp = true;
    expect((await samples(metrics)).get('millrace_outbox_pending_events')).to.equal(7);
  });

  it('never keep a scrape waiting, nor ask a silent database twice at once', async () => {
    const metrics = createMetricRegistry();
    let reads = 0;
    let answer: (figures: OutboxFigures) => void = () => {};
    const read = () => {
      reads++;
      return new Promise<OutboxFigures>((resolve) => {
        answer = resolve;
      });
    };
    measureOutbox(metrics, { read, intervalMs: 60_000, timeoutMs: 1 });
    expect((await samples(metrics)).get('millrace_outbox_readable')).to.equal(0);
    expect((await samples(metrics)).get('millrace_outbox_readable')).to.equal(0);
    expect(reads).to.equal(1);
    answer(figures);
    await new Promise(setImmediate);
    expect((await samples(metrics)).get('millrace_outbox_pending_events')).to.equal(7);
    expect(reads).to.equal(1);
  });
});

describe('metrics of the process', () => {
  it('tell of processor, memory and event loop', async () => {
    const metrics = createMetricRegistry();
    measureProcess(metrics);
    const first = await samples(metrics);
    const second = await samples(metrics);
    expect(first.get('process_resident_memory_bytes')).to.be.greaterThan(1_000_000);
    expect(second.get('process_cpu_seconds_total')).to.be.at.least(
      first.get('process_cpu_seconds_total') ?? 0,
    );
    expect(second.get('nodejs_eventloop_active_seconds_total')).to.be.greaterThan(0);
  });
});
