import { command, query, startRole, withServers } from './support/servers.ts';

const bulkViews = 5000;
const concurrency = 50;
const singleViews = 200;

/** One view after the other from command to statistic, then many at once: what a shopper waits for and what the whole takes. */
export const run = (): Promise<void> =>
  withServers(async (endpoints) => {
    const api = await startRole('all', endpoints);
    try {
      await measure(api.url);
    } finally {
      await api.stop();
    }
  });

const measure = async (url: string): Promise<void> => {
  await command(url, '/v1/products', {
    productId: 'bench',
    name: 'Bench',
    priceMinor: 1,
    currency: 'EUR',
    stock: 1,
  });
  await command(url, '/v1/products/bench/views');
  await reach(url, 1);

  const delays: number[] = [];
  for (let view = 2; view < singleViews + 2; view++) {
    const start = performance.now();
    await command(url, '/v1/products/bench/views');
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
      for (let view = 0; view < bulkViews / concurrency; view++)
        await command(url, '/v1/products/bench/views');
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

const reachTimeoutMs = 60_000;

const reach = async (url: string, views: number): Promise<void> => {
  const deadline = Date.now() + reachTimeoutMs;
  while (Date.now() < deadline) {
    const { viewCount } = await query<{ viewCount?: number }>(url, '/v1/products/bench/statistic');
    if (viewCount === views) return;
    if (viewCount !== undefined && viewCount > views)
      throw new Error(`Counted ${viewCount} of ${views} views`);
  }
  throw new Error(`The statistic did not reach ${views} within ${reachTimeoutMs} ms`);
};
