import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import type { Endpoints } from '../src/infra/infrastructure.ts';
import { cpuSecondsOf, cpuSecondsOfTree } from './support/process-cost.ts';
import { authorization, type ServerPids, startRole, withServers } from './support/servers.ts';

const waiters = 1000;
const waitSeconds = 10;
const commandsLater = 2000;

/**
 * A thousand queries that wait at once for events that nobody relays: what that costs the API and PostgreSQL. Then the relay
 * comes, and they are answered. Beside it the same time with one query that waits, and with none.
 */
export const run = (): Promise<void> =>
  withServers(async (endpoints, pids) => {
    const unlimited = { RATE_LIMIT_COMMANDS_PER_MINUTE: '0', RATE_LIMIT_LIKES_AND_VIEWS_PER_MINUTE: '0' };
    const api = await startRole('api', endpoints, unlimited);
    const projector = await startRole('projector', endpoints);
    const relay = await startRole('relay', endpoints);
    const apiPid = api.child.pid ?? 0;
    try {
      const { productId, token: registered } = await register(api.url);
      await statistic(api.url, productId, registered);
      await relay.stop();
      for (const count of [0, 1, waiters]) {
        const tokens = await Promise.all(Array.from({ length: count }, () => view(api.url, productId)));
        const asked = tokens.map((token) => statistic(api.url, productId, token));
        // The first moments are those of a thousand requests that arrive.
        await pause(1000);
        const before = await costs(endpoints, pids, apiPid);
        await pause(waitSeconds * 1000);
        const after = await costs(endpoints, pids, apiPid);
        const share = (name: 'api' | 'postgres'): string =>
          `${(((after[name] - before[name]) / waitSeconds) * 100).toFixed(1)} %`;
        console.log(
          `${count} waiting: API ${share('api')} of a core, PostgreSQL ${share('postgres')}, ` +
            `${((after.transactions - before.transactions) / waitSeconds).toFixed(0)} transactions/s`,
        );
        const again = await startRole('relay', endpoints);
        await Promise.all(asked);
        await again.stop();
      }
      const last = await startRole('relay', endpoints);
      await pairs(api.url, productId);
      await last.stop();
    } finally {
      await Promise.all([api.stop(), projector.stop()]);
    }
  });

/** One command and its query after the other, by fifty clients. */
const pairs = async (url: string, productId: string): Promise<void> => {
  const delaysMs: number[] = [];
  const start = performance.now();
  const client = async (): Promise<void> => {
    for (let turn = 0; turn < commandsLater / 50; turn++) {
      const token = await view(url, productId);
      const askedAt = performance.now();
      await statistic(url, productId, token);
      delaysMs.push(performance.now() - askedAt);
    }
  };
  await Promise.all(Array.from({ length: 50 }, client));
  const sorted = delaysMs.toSorted((a, b) => a - b);
  const percentile = (share: number): string => (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(0);
  const rate = Math.round((commandsLater / (performance.now() - start)) * 1000);
  console.log(
    `command, then query with its token, 50 clients: ${rate} pairs/s, a query p50 ${percentile(0.5)} ms, p99 ${percentile(0.99)} ms`,
  );
};

const send = (url: string, path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(`${url}${path}`, { ...init, headers: { authorization, ...(init.headers as object) } });

const tokenOf = (response: Response): string => {
  if (response.status !== 201) throw new Error(`A command answered ${response.status}`);
  return response.headers.get('consistency-token') ?? '';
};

const register = async (url: string): Promise<{ productId: string; token: string }> => {
  const productId = randomUUID();
  const body = { productId, name: 'Lamp', priceMinor: 100, currency: 'EUR', stock: 1 };
  const response = await send(url, '/v1/products', {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', 'idempotency-key': randomUUID() },
  });
  return { productId, token: tokenOf(response) };
};

const view = async (url: string, productId: string): Promise<string> =>
  tokenOf(
    await send(url, `/v1/products/${productId}/views`, {
      method: 'POST',
      headers: { 'idempotency-key': randomUUID() },
    }),
  );

const statistic = async (url: string, productId: string, token: string): Promise<void> => {
  const response = await send(url, `/v1/products/${productId}/statistic`, {
    headers: { 'consistency-token': token, prefer: 'wait=30' },
  });
  if (response.status !== 200)
    throw new Error(`A query answered ${response.status}: ${await response.text()}`);
  await response.arrayBuffer();
};

const costs = async (endpoints: Endpoints, pids: ServerPids, apiPid: number) => {
  const client = new pg.Client({ connectionString: endpoints.databaseUrl });
  await client.connect();
  const { rows } = await client.query<{ transactions: string }>(
    'select xact_commit as transactions from pg_stat_database where datname = current_database()',
  );
  await client.end();
  return {
    api: cpuSecondsOf(apiPid),
    postgres: cpuSecondsOfTree(pids.postgres),
    transactions: Number(rows[0]?.transactions ?? 0),
  };
};
