import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startApp } from '../src/app/start-app.ts';
import { loadConfig } from '../src/config/load-config.ts';
import { provideInfrastructure } from '../src/infra/provide-infrastructure.ts';
import { createLogger } from '../src/logging/create-logger.ts';

const bulkViews = 5000;
const concurrency = 50;
const singleViews = 200;

const log = createLogger({ level: 'warn', format: 'pretty' });

/** One view after the other from command to statistic, then many at once: what a shopper waits for and what the whole takes. */
export const run = async (): Promise<void> => {
  const dataDir = mkdtempSync(join(tmpdir(), 'millrace-bench-'));
  const { config } = loadConfig({
    env: { MILLRACE_DATA_DIR: dataDir, PORT: '0', RELAY_BATCH_SIZE_MAX: process.env.RELAY_BATCH_SIZE_MAX },
    envFile: '/dev/null',
  });
  const infrastructure = await provideInfrastructure(config, { log });
  try {
    const app = await startApp({ config, endpoints: infrastructure.endpoints, role: 'all', log });
    try {
      await measure(app.url);
    } finally {
      await app.stop();
    }
  } finally {
    await infrastructure.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
};

const measure = async (url: string): Promise<void> => {
  await post(`${url}/v1/products`, {
    productId: 'bench',
    name: 'Bench',
    priceMinor: 1,
    currency: 'EUR',
    stock: 1,
  });
  await post(`${url}/v1/products/bench/views`);
  await reach(url, 1);

  const delays: number[] = [];
  for (let view = 2; view < singleViews + 2; view++) {
    const start = performance.now();
    await post(`${url}/v1/products/bench/views`);
    await reach(url, view);
    delays.push(performance.now() - start);
  }
  delays.sort((a, b) => a - b);
  const percentile = (share: number): string => (delays[Math.floor(delays.length * share)] ?? 0).toFixed(1);
  console.log(
    `one by one: command to statistic p50 ${percentile(0.5)} ms, p95 ${percentile(0.95)} ms, p99 ${percentile(0.99)} ms`,
  );

  const start = performance.now();
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      for (let view = 0; view < bulkViews / concurrency; view++) await post(`${url}/v1/products/bench/views`);
    }),
  );
  const accepted = performance.now();
  await reach(url, singleViews + 1 + bulkViews);
  const counted = performance.now();
  const perSecond = (since: number, until: number): string =>
    ((bulkViews / (until - since)) * 1000).toFixed(0);
  console.log(
    `${bulkViews} at once (${concurrency} clients): ${perSecond(start, accepted)} commands/s, ${perSecond(start, counted)} events/s to the exact count`,
  );
};

const post = async (url: string, body?: unknown): Promise<void> => {
  const response = await fetch(url, {
    method: 'POST',
    ...(body !== undefined && {
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    }),
  });
  await response.arrayBuffer();
  if (response.status !== 201) throw new Error(`${url} answered ${response.status}`);
};

const reachTimeoutMs = 60_000;

const reach = async (url: string, views: number): Promise<void> => {
  const deadline = Date.now() + reachTimeoutMs;
  while (Date.now() < deadline) {
    const response = await fetch(`${url}/v1/products/bench/statistic`);
    const { viewCount } = (await response.json()) as { viewCount?: number };
    if (viewCount === views) return;
    if (viewCount !== undefined && viewCount > views)
      throw new Error(`Counted ${viewCount} of ${views} views`);
  }
  throw new Error(`The statistic did not reach ${views} within ${reachTimeoutMs} ms`);
};
