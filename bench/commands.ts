import { join } from 'node:path';
import autocannon from 'autocannon';
import { command, operatorKey, startRole, startScript, withServers } from './support/servers.ts';

const durationSeconds = 10;
const warmUpSeconds = 3;
const products = 1000;

interface Scenario {
  readonly name: string;
  readonly connections: number;
  readonly request: (turn: number) => { method: 'POST' | 'PUT'; path: string; body?: unknown };
}

const view = (turn: number) => ({ method: 'POST' as const, path: `/v1/products/p-${turn % products}/views` });
const scenarios: readonly Scenario[] = [
  { name: 'views', connections: 50, request: view },
  { name: 'views', connections: 200, request: view },
  {
    name: 'likes',
    connections: 50,
    request: (turn) => ({ method: 'PUT', path: `/v1/products/p-${turn % products}/likes/u-${turn}` }),
  },
  {
    name: 'orders, all of one product',
    connections: 50,
    request: (turn) => ({
      method: 'POST',
      path: '/v1/orders',
      body: { userId: `u-${turn}`, items: [{ productId: 'hot', quantity: 1 }] },
    }),
  },
  {
    name: 'orders, of many products',
    connections: 50,
    request: (turn) => ({
      method: 'POST',
      path: '/v1/orders',
      body: { userId: `u-${turn}`, items: [{ productId: `p-${turn % products}`, quantity: 1 }] },
    }),
  },
];

/** Commands a second and how long the slowest wait, through HTTP; the naive INSERT per request beside it. */
export const run = (): Promise<void> =>
  withServers(async (endpoints) => {
    const api = await startRole('api', endpoints);
    try {
      await registerProducts(api.url);
      const naive = await startScript([join(import.meta.dirname, 'support/naive-server.ts')], endpoints);
      try {
        for (const connections of [50, 200]) {
          await measure(naive.url, { name: 'naive: one INSERT per view', connections, request: view });
        }
      } finally {
        await naive.stop();
      }
      for (const scenario of scenarios) await measure(api.url, scenario);
    } finally {
      await api.stop();
    }
  });

const registerProducts = async (url: string): Promise<void> => {
  const facts = { name: 'Bench', priceMinor: 100, currency: 'EUR', stock: 1_000_000_000 };
  await Promise.all(
    [...Array.from({ length: products }, (_, index) => `p-${index}`), 'hot'].map((productId) =>
      command(url, '/v1/products', { ...facts, productId }),
    ),
  );
};

const measure = async (url: string, scenario: Scenario): Promise<void> => {
  await fire(url, scenario, warmUpSeconds);
  const { requests, latency, non2xx, errors } = await fire(url, scenario, durationSeconds);
  console.log(
    [
      `${scenario.name}, ${scenario.connections} connections:`.padEnd(46),
      `${Math.round(requests.average)} commands/s,`.padStart(18),
      `p50 ${latency.p50} ms, p99 ${latency.p99} ms, max ${latency.max} ms;`,
      `${non2xx} refused, ${errors} failed`,
    ].join(' '),
  );
};

let turn = 0;

const fire = (url: string, scenario: Scenario, duration: number): Promise<autocannon.Result> =>
  autocannon({
    url,
    connections: scenario.connections,
    duration,
    requests: [
      {
        setupRequest: (request) => {
          turn++;
          const { method, path, body } = scenario.request(turn);
          return {
            ...request,
            method,
            path,
            headers: {
              authorization: `Bearer ${operatorKey}`,
              'idempotency-key': `bench-${process.pid}-${turn}`,
              ...(body !== undefined && { 'content-type': 'application/json' }),
            },
            ...(body !== undefined && { body: JSON.stringify(body) }),
          };
        },
      },
    ],
  });
