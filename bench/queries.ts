import autocannon from 'autocannon';
import type { Endpoints } from '../src/infra/infrastructure.ts';
import type { Database } from '../src/postgres/database.ts';
import { fullestWindowAt } from '../src/read-model/top-trends.ts';
import { openBenchDatabase } from './support/clients.ts';
import { operatorKey, startRole, withServers } from './support/servers.ts';

const durationSeconds = 5;
const warmUpSeconds = 2;
const products = 10_000;
const orders = 100_000;
const users = 1000;
const connections = 50;

interface Scenario {
  readonly name: string;
  readonly path: (turn: number) => string;
  readonly headers?: Readonly<Record<string, string>>;
}

const someProduct = (turn: number): string => `/v1/products/p-${(turn * 7919) % products}`;
const oneProduct: Scenario = { name: 'one product', path: someProduct };
const scenarios: readonly Scenario[] = [
  { ...oneProduct, name: 'one product, always the same', path: () => '/v1/products/p-1' },
  { ...oneProduct, name: 'one product, past the cache', headers: { 'cache-control': 'no-cache' } },
  { name: 'one statistic', path: (turn) => `${someProduct(turn)}/statistic` },
  { name: '20 products by sales', path: () => '/v1/products?sort=sales' },
  { name: '20 products by views', path: () => '/v1/products?sort=views' },
  { name: 'trends of 10,000 products', path: () => '/v1/trends' },
  { name: 'one order', path: (turn) => `/v1/orders/o-${(turn * 7919) % orders}` },
  { name: '20 orders of a user', path: (turn) => `/v1/orders?userId=u-${turn % users}` },
];

/** Queries a second and how long the slowest wait, through HTTP, on read models that were filled by hand. */
export const run = (): Promise<void> =>
  withServers(async (endpoints) => {
    const inProcess = await startRole('api', endpoints, { MILLRACE_INFRA: 'external', REDIS_URL: '' });
    try {
      await fill(endpoints);
      await measure(inProcess.url, { ...oneProduct, name: 'one product, cached in the process' });
    } finally {
      await inProcess.stop();
    }
    const api = await startRole('api', endpoints, { REDIS_URL: endpoints.redisUrl });
    try {
      await measure(api.url, { ...oneProduct, name: 'one product, cached in Redis' });
      for (const scenario of scenarios) await measure(api.url, scenario);
    } finally {
      await api.stop();
    }
  });

const fill = async ({ databaseUrl }: Endpoints): Promise<void> => {
  const db = openBenchDatabase(databaseUrl, 2);
  try {
    await fillModels(db);
  } finally {
    await db.close();
  }
};

const fillModels = async (db: Database): Promise<void> => {
  const last = products - 1;
  await db.execute({
    name: 'fill-products',
    text: `insert into stock_level select 'p-' || n, 'Product ' || n, n, 'EUR', 5, 1, now() from generate_series(0, ${last}) n`,
  });
  await db.execute({
    name: 'fill-statistics',
    text: `insert into product_statistic select 'p-' || n, n % 97, n % 991, n from generate_series(0, ${last}) n`,
  });
  // The next windows as well: the benchmark may run past the end of this one.
  await db.execute(
    {
      name: 'fill-trends',
      text: `insert into product_trend
             select $1::timestamptz + w * interval '5 minutes', 'p-' || n, n % 7, n % 991, n
             from generate_series(0, ${last}) n, generate_series(0, 2) w`,
    },
    [fullestWindowAt(new Date()).from],
  );
  await db.execute({
    name: 'fill-orders',
    text: `insert into order_view
           select 'o-' || n, 'u-' || n % ${users}, 'paid', '[{"productId": "p-1", "quantity": 1, "unitPriceMinor": 5}]', 5,
                  'EUR', 'pay-' || n, 2, timestamptz '2026-01-01Z' + n * interval '1 second', now(), '[]'
           from generate_series(0, ${orders - 1}) n`,
  });
  for (const table of ['stock_level', 'product_statistic', 'product_trend', 'order_view'])
    await db.execute({ name: `analyze-${table}`, text: `analyze ${table}` });
};

const measure = async (url: string, scenario: Scenario): Promise<void> => {
  await fire(url, scenario, warmUpSeconds);
  const { requests, latency, non2xx, errors } = await fire(url, scenario, durationSeconds);
  console.log(
    [
      `${scenario.name}:`.padEnd(36),
      `${Math.round(requests.average)} queries/s,`.padStart(18),
      `p50 ${latency.p50} ms, p99 ${latency.p99} ms, max ${latency.max} ms;`,
      `${non2xx} refused, ${errors} failed`,
    ].join(' '),
  );
};

let turn = 0;

const fire = (url: string, scenario: Scenario, duration: number): Promise<autocannon.Result> =>
  autocannon({
    url,
    connections,
    duration,
    requests: [
      {
        setupRequest: (request) => {
          turn++;
          return {
            ...request,
            method: 'GET',
            path: scenario.path(turn),
            headers: { authorization: `Bearer ${operatorKey}`, ...scenario.headers },
          };
        },
      },
    ],
  });
