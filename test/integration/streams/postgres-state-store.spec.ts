import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { Database } from '../../../src/postgres/database.ts';
import { type BatchCommit, RefusedData } from '../../../src/streams/ports.ts';
import type { CounterRow, CounterTable, RowTable } from '../../../src/streams/tables.ts';
import { pauseProjection, resumeProjection } from '../../../src/streams-postgres/pauses/projection-pause.ts';
import {
  createPostgresStateStore,
  type PostgresStateStoreOptions,
} from '../../../src/streams-postgres/postgres-state-store.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';
import {
  adding,
  at,
  batch,
  move,
  newProjection,
  offsetsOf,
  unique,
} from '../../support/state-store-contract/batches.ts';
import { copied, copyOf } from '../../support/state-store-contract/copies.ts';
import { contractTables, describeStateStore, type OpenStore } from '../../support/state-store-contract.ts';

type AppendDerived = PostgresStateStoreOptions['appendDerived'];

const tableStatements = [
  `create table contract_counter (id text primary key, seen bigint not null, sold bigint not null check (sold >= 0),
                                  updated_at timestamptz not null default clock_timestamp())`,
  `create table contract_window (id text, window_start timestamptz, seen bigint not null, primary key (id, window_start))`,
  `create table contract_row (id text primary key, name text, amount bigint not null, parts jsonb)`,
];

const readCounters =
  (db: Database) =>
  async ({ table, keyColumn, windowColumn, columns }: CounterTable): Promise<readonly CounterRow[]> => {
    const start = windowColumn ? `(extract(epoch from ${windowColumn}) * 1000)::float8` : 'null::float8';
    const rows = await db.execute<{ key: string; start: number | null; amounts: string[] }>({
      name: `spec-${table}`,
      text: `select ${keyColumn} as key, ${start} as start, array[${columns}]::text[] as amounts from ${table}`,
    });
    return rows.map(({ key, start, amounts }) => ({
      key,
      ...(start !== null && { windowStartMs: start }),
      amounts: amounts.map(Number),
    }));
  };

const readRows =
  (db: Database) =>
  async ({ table, keyColumn, columns }: RowTable): Promise<ReadonlyMap<string, unknown>> => {
    const rows = await db.execute<Readonly<Record<string, unknown>>>({
      name: `spec-${table}`,
      text: `select ${keyColumn}, ${columns} from ${table}`,
    });
    return new Map(rows.map(({ [keyColumn]: key, ...row }) => [String(key), row]));
  };

describe('PostgreSQL state store', () => {
  const workspace = useWorkspace();
  let db: Database;
  before(async () => {
    db = openTestDatabase(workspace(), 8);
    for (const [index, text] of tableStatements.entries())
      await db.execute({ name: `spec-table-${index}`, text });
  });

  const open: OpenStore = async ({ appendDerived }) => {
    const options: PostgresStateStoreOptions = {
      database: db,
      appendDerived: (_, events) => appendDerived(events),
    };
    return {
      store: createPostgresStateStore(options),
      other: createPostgresStateStore(options),
      readCounters: readCounters(db),
      readRows: readRows(db),
      readLateRecords: async ({ name, version }, { topic, partition }) => {
        const [row] = await db.execute<{ count: number }>(
          {
            name: 'spec-late',
            text: `select late_records as count from projection_checkpoint
                   where projection = $1 and version = $2 and topic = $3 and partition = $4`,
          },
          [name, version, topic, partition],
        );
        return row?.count ?? 0;
      },
      readLogBreaks: ({ name, version }) =>
        db.execute(
          {
            name: 'spec-log-breaks',
            text: `select topic, partition, kind, offset_before as "offsetBefore", next_offset as "nextOffset",
                          (extract(epoch from stream_time) * 1000)::float8 as "streamTimeMs"
                   from projection_log_break where projection = $1 and version = $2 order by id`,
          },
          [name, version],
        ),
      setPaused: async (projection, isPaused) => {
        if (isPaused) await pauseProjection(db, projection, { by: 'spec', because: null });
        else await resumeProjection(db, projection);
      },
      refused: { table: contractTables.counters, rows: [{ key: 'owed', amounts: [0, -1] }] },
      close: async () => {},
    };
  };

  describeStateStore('PostgreSQL', open, { keepsTables: true });

  it('tells copies of a change that was begun before others and committed after them', async () => {
    const projection = newProjection();
    const [written, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const slow = createPostgresStateStore({
      database: db,
      appendDerived: async () => {
        written.resolve();
        await released.promise;
      },
    });
    const quick = createPostgresStateStore({ database: db, appendDerived: async () => {} });
    const copy = copyOf(quick, projection);
    const underWay = slow.commit(
      batch(projection, {
        states: [copied('slow', { latest: 1 })],
        derived: [{ id: uuidv7(), destination: 'd', key: 'k', value: 1, timeMs: 0, causationId: uuidv7() }],
      }),
    );
    await written.promise;
    await quick.commit(batch(projection, { states: [copied('quick', { latest: 2 }, 1)] }));
    expect(await copy.follow()).to.deep.equal({ quick: { latest: 2 } });
    released.resolve();
    await underWay;
    expect(await copy.follow()).to.deep.equal({ quick: { latest: 2 }, slow: { latest: 1 } });
  });

  it('does not go on from a time that the database has not come to: it was set back', async () => {
    const store = createPostgresStateStore({ database: db, appendDerived: async () => {} });
    const request = { state: { name: 'global', rowsMax: 9 }, since: String(2n ** 62n), rowsMax: 9 };
    const failed = await store.loadChanged(newProjection(), request).catch((error: Error) => error.message);
    expect(failed).to.match(/set back to an earlier time/);
  });

  describe('refuses', () => {
    const { counters, rows } = contractTables;
    const place = at(0);
    const commit = (change: Partial<BatchCommit>, appendDerived: AppendDerived = async () => {}) =>
      createPostgresStateStore({ database: db, appendDerived })
        .commit(batch(newProjection(), { moves: [move(place, undefined, 1)], ...change }))
        .catch((thrown: unknown) => thrown);
    const raising =
      (code: string): AppendDerived =>
      async (tx) => {
        const text = `do $$ begin raise exception 'planted' using errcode = '${code}'; end $$`;
        await tx.execute({ name: `spec-raise-${code}`, text });
      };
    const derived = [
      { id: uuidv7(), destination: 'd', key: 'k', value: 1, timeMs: 0, causationId: uuidv7() },
    ];
    const row = (value: unknown) => ({
      place,
      state: { name: 'rows', table: rows },
      key: unique('row'),
      value,
    });

    const refused: Readonly<Record<string, () => Partial<BatchCommit>>> = {
      'half a count': () => ({ deltas: [adding('a', 0.5, 0)] }),
      'a count that is no number': () => ({ deltas: [adding('a', Number.NaN, 0)] }),
      'a count that was rounded': () => ({ deltas: [adding('a', 2 ** 53, 0)] }),
      'a key with a zero byte': () => ({ deltas: [adding('a\0b', 1, 0)] }),
      'a key that is too long for an index': () => ({
        deltas: [adding(Array.from({ length: 500 }, () => uuidv7()).join(), 1, 0)],
      }),
      'a handled id that is no UUID': () => ({ handled: [{ ...place, bucketStartMs: 0, ids: ['abc'] }] }),
      'a time that no calendar has': () => ({ moves: [move(place, undefined, 1, { streamTimeMs: 1e18 })] }),
      'a state with a number that was rounded': () => ({
        states: [{ place, state: { name: 's' }, key: 'k', value: { sum: [2 ** 53] } }],
      }),
      'a state that is no JSON': () => ({
        states: [{ place, state: { name: 's' }, key: 'k', value: { sum: 1n } }],
      }),
      'a row with a text where a number goes': () => ({ states: [row({ name: 'n', amount: 'many' })] }),
      'a row without what it must have': () => ({ states: [row({ name: 'n' })] }),
      'a row that is none': () => ({ states: [row(5)] }),
    };
    for (const [title, change] of Object.entries(refused)) {
      it(title, async () => {
        expect(await commit(change())).to.be.instanceOf(RefusedData);
      });
    }

    it('a sum that does not fit into the column', async () => {
      const key = unique('full');
      await db.execute(
        {
          name: 'spec-full',
          text: 'insert into contract_counter (id, seen, sold) values ($1, 9223372036854775800, 0)',
        },
        [key],
      );
      expect(await commit({ deltas: [adding(key, 8, 0)] })).to.be.instanceOf(RefusedData);
      await db.execute({ name: 'spec-not-full', text: 'delete from contract_counter where id = $1' }, [key]);
    });

    for (const code of ['22012', '23505', '23514', '54000']) {
      it(`what PostgreSQL refuses with ${code}`, async () => {
        expect(await commit({ derived }, raising(code))).to.be.instanceOf(RefusedData);
      });
    }

    for (const code of ['40001', '40P01', '53100', '53200', '55P03', '57014', '57P01', 'XX000']) {
      it(`nothing because of trouble that passes: ${code}`, async () => {
        expect(await commit({ derived }, raising(code)))
          .to.include({ code })
          .and.not.instanceOf(RefusedData);
      });
    }

    it('nothing because of a connection that ends in mid-batch, and keeps nothing of it', async () => {
      const projection = newProjection();
      const key = unique('lost');
      const error = await createPostgresStateStore({
        database: db,
        appendDerived: async (tx) => {
          await tx.execute({ name: 'spec-die', text: 'select pg_terminate_backend(pg_backend_pid())' });
        },
      })
        .commit(
          batch(projection, {
            moves: [move(place, undefined, 1)],
            deltas: [adding(key, 1, 0)],
            derived,
          }),
        )
        .catch((thrown: unknown) => thrown);
      expect(error).to.be.instanceOf(Error).and.not.instanceOf(RefusedData);
      const store = createPostgresStateStore({ database: db, appendDerived: async () => {} });
      expect(await offsetsOf(store, projection, [place])).to.deep.equal([undefined]);
      expect((await readCounters(db)(counters)).filter((counted) => counted.key === key)).to.deep.equal([]);
    });
  });

  describe('with what it finds', () => {
    const state = { name: 'rows', table: contractTables.rows };
    const store = () => createPostgresStateStore({ database: db, appendDerived: async () => {} });

    it('never rounds a number', async () => {
      const key = unique('large');
      await db.execute(
        { name: 'spec-large', text: 'insert into contract_row (id, amount) values ($1, 9007199254740993)' },
        [key],
      );
      const error = await store()
        .loadStates(newProjection(), [{ state, keys: [key] }])
        .catch((thrown: unknown) => thrown);
      expect(error)
        .to.be.instanceOf(RangeError)
        .with.property('message')
        .match(/^9007199254740993 /);
    });

    it('keeps the time of the last change where the table has one', async () => {
      const [first, second] = [newProjection(), newProjection()];
      const key = unique('dated');
      const updatedAt = async () => {
        const [found] = await db.execute<{ at: Date }>(
          { name: 'spec-updated', text: 'select updated_at as at from contract_counter where id = $1' },
          [key],
        );
        return found?.at.getTime() ?? 0;
      };
      const moves = [move(at(0), undefined, 1)];
      await store().commit(batch(first, { moves, deltas: [adding(key, 1, 0)] }));
      const before = await updatedAt();
      await store().commit(batch(second, { moves, deltas: [adding(key, 0, 0)] }));
      expect(await updatedAt()).to.equal(before);
      await eventually(() => expect(Date.now()).to.be.greaterThan(before + 1));
      await store().commit(batch(newProjection(), { moves, deltas: [adding(key, 1, 0)] }));
      expect(await updatedAt()).to.be.greaterThan(before);
    });

    it('tells which table is missing, and takes no name that is none', async () => {
      const into = (table: string) =>
        store()
          .commit(
            batch(newProjection(), {
              moves: [move(at(0), undefined, 1)],
              deltas: [
                { table: { ...contractTables.counters, table }, rows: [{ key: 'k', amounts: [1, 0] }] },
              ],
            }),
          )
          .then(() => '')
          .catch((thrown: Error) => thrown.message);
      expect(await into('not_there')).to.match(/no table not_there/);
      expect(await into('x; drop table outbox')).to.match(/is not a table or column name/);
    });
  });
});
