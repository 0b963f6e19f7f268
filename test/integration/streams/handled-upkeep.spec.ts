import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { Database } from '../../../src/postgres/database.ts';
import type { ProjectionId } from '../../../src/streams/ports.ts';
import { createPostgresStateStore } from '../../../src/streams-postgres/postgres-state-store.ts';
import { handledDayAt, listHandledDays } from '../../../src/streams-postgres/upkeep/handled-days.ts';
import { keepUpHandled, startHandledUpkeep } from '../../../src/streams-postgres/upkeep/handled-upkeep.ts';
import { openHandledDays } from '../../../src/streams-postgres/upkeep/open-handled-days.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { recordingLog, silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';
import {
  at,
  batch,
  committed,
  move,
  newProjection,
  paidAdding,
} from '../../support/state-store-contract/batches.ts';
import { copied } from '../../support/state-store-contract/copies.ts';

const dayMs = 86_400_000;
const retentionMs = 37 * dayMs;
const todayMs = Math.floor(Date.now() / dayMs) * dayMs;
const daysAgo = (days: number): number => todayMs - days * dayMs;
/** The same for all specs, also when they run over midnight. */
const noonMs = todayMs + dayMs / 2;

describe('upkeep of what was handled', () => {
  const workspace = useWorkspace();
  let db: Database;
  before(() => {
    db = openTestDatabase(workspace(), 4);
  });
  beforeEach(async () => {
    for (const { table } of await listHandledDays(db))
      await db.execute({ name: `spec-drop-${table}`, text: `drop table ${table}` });
    await db.execute({ name: 'spec-empty', text: 'truncate projection_handled_default, projection_fact' });
  });

  const run = (nowMs = noonMs) => keepUpHandled({ database: db, retentionMs, log: silentLog() }, nowMs);
  const tables = async () => (await listHandledDays(db)).map(({ table }) => table);
  const tableAt = (timeMs: number): string => handledDayAt(timeMs).table;
  const store = () => createPostgresStateStore({ database: db, appendDerived: async () => {} });

  /** Commits one id for each of these times. */
  const handle = async (projection: ProjectionId, times: readonly number[]): Promise<readonly string[]> => {
    const ids = times.map(() => uuidv7());
    const outcome = await store().commit(
      batch(projection, {
        moves: [move(at(0), undefined, 1)],
        handled: times.map((bucketStartMs, index) => ({ ...at(0), bucketStartMs, ids: [ids[index] ?? ''] })),
      }),
    );
    expect(outcome).to.deep.equal(committed);
    return ids;
  };
  const load = (projection: ProjectionId, times: readonly number[]) =>
    store().loadHandled(
      projection,
      times.map((bucketStartMs) => ({ ...at(0), bucketStartMs })),
    );
  const rowsByTable = async (): Promise<Readonly<Record<string, number>>> => {
    const rows = await db.execute<{ table: string; count: number }>({
      name: 'spec-rows-by-table',
      text: 'select tableoid::regclass::text as "table", count(*) from projection_handled group by 1',
    });
    return Object.fromEntries(rows.map(({ table, count }) => [table, count]));
  };
  /** As if everything had been handled earlier. */
  const age = async (days: number): Promise<void> => {
    for (const table of ['projection_handled', 'projection_fact'])
      await db.execute(
        { name: `spec-age-${table}`, text: `update ${table} set handled_at = now() - $1 * interval '1 day'` },
        [days],
      );
  };

  it('opens today and the next three days, which ids of that time go to', async () => {
    await run();
    expect(await tables()).to.deep.equal([0, -1, -2, -3].map((days) => tableAt(daysAgo(days))));
    const projection = newProjection();
    const times = [daysAgo(0), daysAgo(0) + dayMs - 10_000, daysAgo(-1), daysAgo(-4), daysAgo(1)];
    const ids = await handle(projection, times);
    expect(await rowsByTable()).to.deep.equal({
      [tableAt(daysAgo(0))]: 2,
      [tableAt(daysAgo(-1))]: 1,
      projection_handled_default: 2,
    });
    expect(await load(projection, times)).to.deep.equal(ids.map((id) => [id]));
  });

  it('changes nothing the second time, also when several do it at once', async () => {
    await Promise.all([run(), run(), run()]);
    const once = await tables();
    expect(once).to.have.length(4);
    await Promise.all([run(), run()]);
    expect(await tables()).to.deep.equal(once);
  });

  it('leaves a day in the table for everything else when ids of it are there already', async () => {
    const projection = newProjection();
    const ids = await handle(projection, [daysAgo(-1)]);
    await run();
    expect(await tables()).to.deep.equal([0, -2, -3].map((days) => tableAt(daysAgo(days))));
    expect(await load(projection, [daysAgo(-1)])).to.deep.equal([ids]);
  });

  it('drops a day when it is over, and not before', async () => {
    await run(daysAgo(38));
    const projection = newProjection();
    const times = [daysAgo(38), daysAgo(37), daysAgo(36)];
    await handle(projection, times);
    await age(40);
    await run();
    const left = await tables();
    expect(left).not.to.include(tableAt(daysAgo(38)));
    expect(left).to.include.members([tableAt(daysAgo(37)), tableAt(daysAgo(36))]);
    expect((await load(projection, times)).map(({ length }) => length)).to.deep.equal([0, 1, 1]);
  });

  it('keeps a day as long as something of it was handled lately, as a replayed dead letter is', async () => {
    await run(daysAgo(50));
    const projection = newProjection();
    const ids = await handle(projection, [daysAgo(50)]);
    await run();
    expect(await tables()).to.include(tableAt(daysAgo(50)));
    expect(await tables()).not.to.include(tableAt(daysAgo(49)));
    expect(await load(projection, [daysAgo(50)])).to.deep.equal([ids]);
    await age(38);
    await run();
    expect(await tables()).not.to.include(tableAt(daysAgo(50)));
  });

  it('expires ids without a day, unless they were handled lately or lie in the future', async () => {
    const [old, future] = [newProjection(), newProjection()];
    await handle(old, [daysAgo(400)]);
    await handle(future, [daysAgo(-400)]);
    await age(38);
    const late = newProjection();
    await handle(late, [daysAgo(400)]);
    await run();
    const left = await Promise.all([
      load(old, [daysAgo(400)]),
      load(future, [daysAgo(-400)]),
      load(late, [daysAgo(400)]),
    ]);
    expect(left.map(([ids]) => ids?.length)).to.deep.equal([0, 1, 1]);
  });

  it('expires windows of counts, more than one statement takes away, and keeps those of live traffic', async () => {
    const keptMs = 8 * dayMs;
    const options = {
      database: db,
      retentionMs,
      windows: {
        tables: [{ table: 'product_trend', windowColumn: 'window_start' }],
        retentionMs: keptMs,
      },
      log: silentLog(),
    };
    await db.execute(
      {
        name: 'spec-windows',
        text: `insert into product_trend (window_start, product_id, view_count)
               select to_timestamp($1::float8 / 1000) - n * interval '1 hour', 'p' || p, 1
               from generate_series(0, 23) n, generate_series(1, 100) p`,
      },
      [noonMs - keptMs],
    );
    const windows = () =>
      db.execute<{ start: number; rows: number }>({
        name: 'spec-windows-left',
        text: `select (extract(epoch from window_start) * 1000)::float8 as start, count(*) as rows
               from product_trend group by window_start order by 1`,
      });
    await db.transaction(async (tx) => {
      // Somebody is writing to one of them: nobody waits for the other.
      await tx.execute({
        name: 'spec-write-window',
        text: `update product_trend set view_count = 2
               where product_id = 'p7' and window_start = (select min(window_start) from product_trend)`,
      });
      await keepUpHandled(options, noonMs);
    });
    expect(await windows()).to.deep.equal([
      { start: noonMs - keptMs - 23 * 3_600_000, rows: 1 },
      { start: noonMs - keptMs, rows: 100 },
    ]);
    await keepUpHandled(options, noonMs + 1);
    expect(await windows()).to.deep.equal([]);
  });

  it('expires what is left of states that every process knows to be gone, and no other', async () => {
    const projection = newProjection();
    const changes = (value: unknown) => ({ states: ['gone', 'back'].map((key) => copied(key, value)) });
    await store().commit(batch(projection, changes({ latest: 1 })));
    await store().commit(batch(projection, changes(undefined)));
    await store().commit(batch(projection, { states: [copied('back', { latest: 2 })] }));
    const keys = async () => {
      const rows = await db.execute<{ key: string }>(
        {
          name: 'spec-states-left',
          text: 'select key from projection_state where projection = $1 order by key',
        },
        [projection.name],
      );
      return rows.map(({ key }) => key);
    };
    await run(Date.now());
    expect(await keys()).to.deep.equal(['back', 'gone']);
    await run(Date.now() + 2 * dayMs);
    expect(await keys()).to.deep.equal(['back']);
  });

  it('expires facts, more than one statement takes away', async () => {
    await db.execute({
      name: 'spec-facts',
      text: `insert into projection_fact (kind, aggregate_id, handled_at)
             select -1, 'order-' || n, now() - interval '38 days' from generate_series(1, 12000) n`,
    });
    const projection = newProjection();
    const facts = [paidAdding('order-1', 'k', 1, 0)].map(({ fact }) => ({ fact, adds: [] }));
    await store().commit(batch(projection, { moves: [move(at(0), undefined, 1)], facts }));
    await run();
    const [left] = await db.execute<{ count: number }>({
      name: 'spec-facts-left',
      text: 'select count(*) from projection_fact',
    });
    expect(left?.count).to.equal(1);
  });

  describe('makes way for those who write', () => {
    /** Runs the routine while a transaction has written to the table for everything else and stays open. */
    const whileWriting = (routine: () => Promise<void>): Promise<void> =>
      db.transaction(async (tx) => {
        await tx.execute({
          name: 'spec-write',
          text: `insert into projection_handled (bucket_start_ms, scope, ids) values (0, -1, '')`,
        });
        await routine();
      });

    it('and tries again later, without a word', async () => {
      const { log, lines } = recordingLog();
      await whileWriting(async () => {
        const upkeep = await startHandledUpkeep({ database: db, retentionMs, log });
        await upkeep.stop();
        expect(await tables()).to.deep.equal([]);
      });
      expect(lines.filter(({ level }) => level > 20)).to.deep.equal([]);
      const upkeep = await startHandledUpkeep({ database: db, retentionMs, log });
      await upkeep.stop();
      expect(await tables()).to.have.length(4);
      expect(lines.filter(({ level }) => level > 20)).to.deep.equal([]);
    });

    it('and drops nothing under their hands', async () => {
      await openHandledDays(db, daysAgo(60));
      await openHandledDays(db, noonMs);
      const projection = newProjection();
      await whileWriting(async () => {
        const failed = await run().then(
          () => undefined,
          (error: Error & { code?: string }) => error.code,
        );
        expect(failed).to.equal('55P03');
        // Nobody waits behind it either.
        await handle(projection, [daysAgo(60)]);
      });
      expect(await tables()).to.include(tableAt(daysAgo(60)));
    });
  });

  it('says once that it cannot, and goes on trying', async () => {
    const { log, lines } = recordingLog();
    const closed = openTestDatabase(workspace(), 1);
    const broken = { ...closed, transaction: () => Promise.reject(new Error('planted')) };
    const upkeep = await startHandledUpkeep({ database: broken, retentionMs, log });
    await upkeep.stop();
    expect(lines.map(({ level, msg }) => [level, msg])).to.deep.equal([
      [50, 'The upkeep of what was handled failed; it is tried again'],
    ]);
  });
});
