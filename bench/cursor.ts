import type { Database } from '../src/postgres/database.ts';
import { migrate } from '../src/postgres/migrate.ts';
import { findOutboxDelta } from '../src/relay/open-outbox-delta.ts';
import { readOutboxPage } from '../src/relay/read-outbox-page.ts';
import { benchLog as log, openBenchDatabase } from './support/clients.ts';
import { withServers } from './support/servers.ts';

const sizes = [10_000, 1_000_000, 10_000_000];
const fillBatch = 500_000;
const polls = 500;
const pageRows = 100;
const pages = 300;

/** What a poll and a page cost when the table is small, large and very large, also with a transaction left open. */
export const run = (): Promise<void> =>
  withServers(async ({ databaseUrl }) => {
    await migrate(databaseUrl, { log, connectTimeoutMs: 5000 });
    const db = openBenchDatabase(databaseUrl, 4);
    try {
      let rows = 0;
      for (const size of sizes) {
        for (; rows < size; rows += Math.min(fillBatch, size - rows))
          await fill(db, rows, Math.min(fillBatch, size - rows));
        await db.execute({ name: 'vacuum', text: 'vacuum (analyze) outbox' });
        await measure(db, size);
      }
    } finally {
      await db.close();
    }
  });

const fill = async (db: Database, from: number, count: number): Promise<void> => {
  await db.execute(
    {
      name: 'fill',
      text: `
        insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version, partition_key,
                            request_id, schema_fingerprint, payload, content_hash, occurred_at)
        select gen_random_uuid(), 'loopers.product.viewed.v1', 'bench', 'ProductView', 'v' || n, 1, 'p' || n % 1000,
               'r' || n, sha256('x'), decode(repeat('ab', 200), 'hex'), sha256('y'), now()
        from generate_series($1::bigint, $2::bigint) n`,
    },
    [from + 1, from + count],
  );
};

const perCallMs = async (calls: number, call: () => Promise<unknown>): Promise<string> => {
  const start = performance.now();
  for (let turn = 0; turn < calls; turn++) await call();
  return `${((performance.now() - start) / calls).toFixed(3)} ms`;
};

const measure = async (db: Database, size: number): Promise<void> => {
  const atTheEnd = await currentPosition(db);
  const idle = await perCallMs(polls, () => findOutboxDelta(db, atTheEnd));

  const holding = db.transaction(async (tx) => {
    await tx.execute({ name: 'hold', text: 'select pg_current_xact_id()' });
    await new Promise<void>((resolve) => {
      release = resolve;
    });
  });
  await new Promise((resolve) => setTimeout(resolve, 50));
  const withOpen = await currentPosition(db);
  await fill(db, size * 10, 1000);
  const heldUp = await perCallMs(polls, () => findOutboxDelta(db, withOpen));
  release();
  await holding;

  const opened = await findOutboxDelta(db, atTheEnd);
  if (!opened) throw new Error('There is a delta of a thousand rows');
  const onePage = await perCallMs(pages, () => readOutboxPage(db, opened, { rowsMax: pageRows, row: null }));
  await db.transaction(async (tx) => {
    await tx.execute({ name: 'off', text: 'alter table outbox disable trigger outbox_is_append_only' });
    await tx.execute({ name: 'trim', text: `delete from outbox where id > $1` }, [opened.bounds.firstId - 1]);
    await tx.execute({ name: 'on', text: 'alter table outbox enable trigger outbox_is_append_only' });
  });
  console.log(
    `${size.toLocaleString('en-US').padStart(10)} rows: idle poll ${idle}, poll with a transaction left open ${heldUp}, page of ${pageRows} ${onePage}`,
  );
};

let release: () => void = () => {};

const currentPosition = async (db: Database): Promise<string> => {
  const [row] = await db.execute<{ now: string }>({
    name: 'now',
    text: 'select pg_current_snapshot()::text as now',
  });
  return row?.now ?? '';
};
