import { storeWriterSchemas } from '../src/journal/writer-schemas.ts';
import { migrate } from '../src/postgres/migrate.ts';
import { reshard } from '../src/relay/reshard.ts';
import { drain } from './relay/drain.ts';
import { bareKafkajs, handWrittenPoller } from './relay/references.ts';
import type { RelayBench } from './relay/relay-bench.ts';
import { idle, steady } from './relay/steady.ts';
import { benchLog as log, openBenchDatabase } from './support/clients.ts';
import { startRole, withServers } from './support/servers.ts';

const cursor = (rowsAPage?: number) => ({
  title: rowsAPage === undefined ? 'cursor' : `cursor, pages of ${rowsAPage.toLocaleString('en-US')}`,
  env: {
    RELAY_SOURCE: 'cursor',
    ...(rowsAPage !== undefined && { RELAY_BATCH_SIZE_MAX: String(rowsAPage) }),
  },
});
const wal = { title: 'write-ahead log', env: { RELAY_SOURCE: 'wal' } };

/** The references come first and leave the broker warm. */
const parts: Readonly<Record<string, (bench: RelayBench) => Promise<void>>> = {
  references: async ({ endpoints }) => {
    await handWrittenPoller(endpoints);
    await bareKafkajs(endpoints);
  },
  drain: async (bench) => {
    await drain(bench, cursor());
    await drain(bench, wal);
  },
  pages: async (bench) => {
    for (const rows of [100, 500, 1000, 2000, 5000]) await drain(bench, cursor(rows));
  },
  shards: async (bench) => {
    const inTwo = { env: { ...cursor().env, RELAY_SHARDS: '2' } };
    await reshard(bench.db, { shards: 2, who: 'bench' });
    await drain(bench, { ...inTwo, title: 'cursor, two shards, one process' });
    await drain(bench, { ...inTwo, title: 'cursor, two shards, two processes', relays: 2 });
    await steady(bench, { ...inTwo, title: 'cursor, two shards, one process' });
    await reshard(bench.db, { shards: 1, who: 'bench' });
  },
  steady: async (bench) => {
    await steady(bench, cursor());
    await steady(bench, wal);
  },
  idle: async (bench) => {
    await idle(bench, cursor());
    await idle(bench, wal);
  },
};

/** The relay as a process of its own: draining a backlog, keeping up, and having nothing to do. Parts can be named. */
export const run = (names: readonly string[] = []): Promise<void> => {
  const chosen = names.length > 0 ? names : Object.keys(parts);
  return withServers(async (endpoints, pids) => {
    await migrate(endpoints.databaseUrl, { log, connectTimeoutMs: 5000 });
    const db = openBenchDatabase(endpoints.databaseUrl, 8);
    try {
      await storeWriterSchemas(db);
      // Makes the topics and registers the schemas.
      await (await startRole('relay', endpoints)).stop();
      for (const name of chosen) {
        const part = parts[name];
        if (!part) throw new Error(`There is no part ${name}; there are ${Object.keys(parts).join(', ')}`);
        await part({ endpoints, pids, db, log });
      }
    } finally {
      await db.close();
    }
  });
};
