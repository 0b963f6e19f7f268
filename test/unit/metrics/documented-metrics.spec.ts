import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { measureHttp } from '../../../src/metrics/http-metrics.ts';
import { measureLive } from '../../../src/metrics/live-metrics.ts';
import { createMetricRegistry } from '../../../src/metrics/metric-registry.ts';
import { measureOutbox } from '../../../src/metrics/outbox-metrics.ts';
import { measureProcess } from '../../../src/metrics/process-metrics.ts';
import { measureProductCache } from '../../../src/metrics/product-cache-metrics.ts';
import { measureRelay } from '../../../src/metrics/relay-metrics.ts';
import { measureStreams } from '../../../src/metrics/streams-metrics.ts';
import { measureWaiting } from '../../../src/metrics/waiting-metrics.ts';
import { projectRoot } from '../../../src/project-root.ts';

const document = readFileSync(join(projectRoot, 'docs', 'metrics.md'), 'utf8');

/** `name type label label` of every row in the tables of metrics. */
const documented = (text: string): readonly string[] =>
  [...text.matchAll(/^\| `([a-z0-9_]+)` +\| (counter|gauge|histogram) +\|([^|]*)\|/gm)]
    .map(([, name, type, labels = '']) =>
      [name, type, ...[...labels.matchAll(/`([a-z_]+)`/g)].map(([, label]) => label).sort()].join(' '),
    )
    .sort();

const registered = (): readonly string[] => {
  const metrics = createMetricRegistry();
  measureProcess(metrics);
  measureHttp(metrics);
  measureLive(metrics);
  measureProductCache(metrics);
  measureStreams(metrics);
  measureWaiting(metrics);
  measureRelay(metrics).sampleFrom(() => ({
    circuit: 'closed',
    deadLetters: { stored: 0, backedUp: 0, onlyAlerted: 0 },
  }));
  measureOutbox(metrics, { read: () => Promise.reject(new Error('not asked')), intervalMs: 0, timeoutMs: 1 });
  return metrics.register
    .getMetricsAsArray()
    .map((metric) => {
      const { name, type, labelNames } = metric as unknown as {
        name: string;
        type: string;
        labelNames: readonly string[];
      };
      return [name, type, ...labelNames.toSorted()].join(' ');
    })
    .sort();
};

describe('docs/metrics.md', () => {
  it('lists every metric there is, with its type and its labels, and no other', () => {
    expect(registered().length).to.be.greaterThan(20);
    expect(documented(document)).to.deep.equal(registered());
  });

  it('speaks of known metrics only', () => {
    const names = registered().map((metric) => metric.split(' ')[0]);
    const spokenOf = [...document.matchAll(/\b((?:millrace|nodejs|process)_[a-z0-9_]+)/g)].map(
      ([, name = '']) => name,
    );
    const unknown = spokenOf.filter(
      (name) => !names.includes(name) && !names.includes(name.replace(/_(bucket|sum|count)$/, '')),
    );
    expect(unknown).to.deep.equal([]);
  });
});
