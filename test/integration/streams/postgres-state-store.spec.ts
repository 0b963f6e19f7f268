import { expect } from 'chai';
import type { Database } from '../../../src/postgres/database.ts';
import type { BatchCommit } from '../../../src/streams/ports.ts';
import type { CounterTable, Effect } from '../../../src/streams/topology.ts';
import { createPostgresStateStore } from '../../../src/streams-postgres/postgres-state-store.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';

const table: CounterTable = {
  table: 'product_statistic',
  keyColumn: 'product_id',
  columns: ['like_count', 'sales_count', 'view_count'],
};

const view = (productId: string, viewId: string): Effect => ({
  table,
  key: productId,
  column: 'view_count',
  by: 1,
  handled: {
    aggregateType: 'ProductView',
    aggregateId: `${productId}_${viewId}`,
    action: 'VIEW_COUNT_INCREASED',
  },
});

describe('state store', () => {
  const workspace = useWorkspace();
  let db: Database;
  before(() => {
    db = openTestDatabase(workspace(), 8);
  });

  const store = () => createPostgresStateStore(db);
  const viewsOf = async (productId: string): Promise<number | undefined> => {
    const [row] = await db.execute<{ count: number }>(
      { name: 'spec-views', text: 'select view_count as count from product_statistic where product_id = $1' },
      [productId],
    );
    return row?.count;
  };
  const batch = (topic: string, rest: Partial<BatchCommit>): BatchCommit => ({
    projection: 'spec',
    topic,
    partition: 0,
    expectedOffset: undefined,
    nextOffset: 1,
    effects: [],
    ...rest,
  });

  it('counts, remembers and moves the checkpoint together', async () => {
    const effects = [view('a', '1'), view('a', '2'), view('b', '3')];
    expect(await store().commit(batch('t1', { nextOffset: 3, effects }))).to.equal(true);
    expect([await viewsOf('a'), await viewsOf('b')]).to.deep.equal([2, 1]);
    expect(await store().loadCheckpoint('spec', 't1', 0)).to.equal(3);
  });

  it('counts a fact once, repeated in a batch, in a later batch and in another topic', async () => {
    await store().commit(batch('t2', { effects: [view('c', '1'), view('c', '1')] }));
    await store().commit(
      batch('t2', { expectedOffset: 1, nextOffset: 2, effects: [view('c', '1'), view('c', '2')] }),
    );
    await store().commit(batch('t2-again', { effects: [view('c', '2')] }));
    expect(await viewsOf('c')).to.equal(2);
  });

  it('changes nothing for one whose checkpoint has been moved by another', async () => {
    await store().commit(batch('t3', { nextOffset: 5 }));
    const late = await store().commit(
      batch('t3', { expectedOffset: 2, nextOffset: 6, effects: [view('late', '1')] }),
    );
    const first = await store().commit(batch('t3', { nextOffset: 9, effects: [view('late', '2')] }));
    expect([late, first]).to.deep.equal([false, false]);
    expect(await viewsOf('late')).to.equal(undefined);
    expect(await store().loadCheckpoint('spec', 't3', 0)).to.equal(5);
  });

  it('lets one of two zombies through, whoever comes first', async () => {
    await store().commit(batch('t4', { nextOffset: 1 }));
    const attempts = await Promise.all(
      ['x', 'y'].map((id) =>
        store().commit(batch('t4', { expectedOffset: 1, nextOffset: 2, effects: [view('zombie', id)] })),
      ),
    );
    expect(attempts.filter(Boolean)).to.have.length(1);
    expect(await viewsOf('zombie')).to.equal(1);
  });

  it('survives partitions that count the same rows in different orders', async () => {
    const keys = Array.from({ length: 50 }, (_, index) => `hot-${index}`);
    await Promise.all(
      Array.from({ length: 8 }, (_, partition) => {
        const ordered = partition % 2 === 0 ? keys : keys.toReversed();
        const effects = ordered.map((key) => view(key, `p${partition}`));
        return store().commit({ ...batch('t5', { effects }), partition });
      }),
    );
    expect(await Promise.all(keys.map(viewsOf))).to.deep.equal(keys.map(() => 8));
  });

  it('gives a row to a key that nothing has counted yet', async () => {
    await store().commit(
      batch('t6', { effects: [{ table, key: 'new', column: undefined, by: 0, handled: undefined }] }),
    );
    expect(await viewsOf('new')).to.equal(0);
  });
});
