import { expect } from 'chai';
import type { Database } from '../../../src/postgres/database.ts';
import { createPostgresStateStore } from '../../../src/streams-postgres/postgres-state-store.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';
import { at, batch, move, newProjection } from '../../support/state-store-contract/batches.ts';

const statistic = {
  table: 'product_statistic',
  keyColumn: 'product_id',
  columns: ['like_count', 'sales_count', 'view_count'],
} as const;
const stock = {
  table: 'stock_level',
  keyColumn: 'product_id',
  columns: ['name', 'price_minor', 'currency', 'stock', 'version', 'updated_at'],
} as const;
const mill = {
  name: 'Mill',
  price_minor: 1,
  currency: 'EUR',
  stock: 1,
  version: 1,
  updated_at: '2026-01-01Z',
};

describe('changes of read models', () => {
  const workspace = useWorkspace();
  let db: Database;
  let changes = 0;
  before(() => {
    db = openTestDatabase(workspace());
  });
  const storeTelling = (tables: readonly string[]) =>
    createPostgresStateStore({
      database: db,
      appendDerived: async () => {},
      told: { tables: new Set(tables), onChanged: () => void changes++ },
    });
  const told = async (): Promise<readonly string[]> => {
    const rows = await db.execute<{ told: string }>({
      name: 'spec-told',
      text: `with gone as (delete from model_change returning *)
             select model || ' ' || array_to_string(keys, ',') as told from gone order by id`,
    });
    return rows.map((row) => row.told);
  };
  const adding = (...keys: readonly string[]) => ({
    table: statistic,
    rows: keys.map((key) => ({ key, amounts: [0, 0, 1] })),
  });
  const place = at(0);

  it('are told with the batch, each key once, of the tables that are told and of no other', async () => {
    const projection = newProjection();
    const store = storeTelling(['product_statistic', 'stock_level']);
    await store.commit(
      batch(projection, {
        moves: [move(place, undefined, 5)],
        deltas: [adding('b', 'a'), adding('a')],
        states: [
          { place, state: { name: 'stock', table: stock }, key: 'a', value: mill },
          { place, state: { name: 'unseen' }, key: 'z', value: 1 },
        ],
      }),
    );
    expect(await told()).to.deep.equal(['product_statistic a,b', 'stock_level a']);
    expect(changes).to.equal(1);
    await storeTelling(['order_view']).commit(
      batch(projection, { moves: [move(place, 5, 6)], deltas: [adding('a')] }),
    );
    expect(await told()).to.deep.equal([]);
    expect(changes).to.equal(1);
  });

  it('are not told of a batch that came too late or was refused', async () => {
    const projection = newProjection();
    const store = storeTelling(['product_statistic']);
    changes = 0;
    const late = await store.commit(batch(projection, { moves: [move(place, 3, 4)], deltas: [adding('c')] }));
    expect(late).to.deep.equal({ kind: 'fenced' });
    const refused = { table: statistic, rows: [{ key: 'd', amounts: [-1, 0, 0] }] };
    await store
      .commit(batch(projection, { moves: [move(place, undefined, 1)], deltas: [adding('e'), refused] }))
      .then(
        () => expect.fail('it was taken'),
        () => undefined,
      );
    expect(await told()).to.deep.equal([]);
    expect(changes).to.equal(0);
  });
});
