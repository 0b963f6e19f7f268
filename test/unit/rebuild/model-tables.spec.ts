import { expect } from 'chai';
import { projections } from '../../../src/app/projections.ts';
import { modelTablesOf, whyNotRebuildable } from '../../../src/rebuild/model-tables.ts';
import { topology } from '../../../src/streams/topology.ts';

const onFailure = { retries: 0, backoffMs: 1, afterRetries: 'skip-record' } as const;

describe('the tables of a read model', () => {
  const all = projections({ topics: { prefix: '' } });

  it('are those that its topology fills, with what tells rows apart', () => {
    const found = all.flatMap((one) =>
      modelTablesOf(one).map(({ table, keys }) => [one.name, table, ...keys]),
    );
    expect(found).to.deep.equal([
      ['product-statistic', 'product_statistic', 'product_id'],
      ['product-trend', 'product_trend', 'window_start', 'product_id'],
      ['product-momentum', 'product_momentum', 'product_id'],
      ['order-view', 'order_view', 'order_id'],
      ['order-payment', 'order_payment', 'order_id'],
      ['order-receipt', 'order_receipt', 'order_id'],
      ['stock-level', 'stock_level', 'product_id'],
      ['stock-outage', 'stock_outage', 'product_id'],
    ]);
  });

  it('are compared without what goes by the wall clock, which a rebuild does not have', () => {
    const outage = all.filter(({ name }) => name === 'stock-outage').flatMap(modelTablesOf);
    expect(outage.map(({ columns }) => columns)).to.deep.equal([['name', 'out_since']]);
  });

  it('are all that can be rebuilt', () => {
    const reasons = all.map((one) => whyNotRebuildable(one)).filter((reason) => reason !== undefined);
    expect(reasons).to.deep.equal(['product-cache keeps no read model in the database']);
  });

  it('cannot be rebuilt where events are derived from events', () => {
    const table = { table: 'counted', keyColumn: 'id', columns: ['n'] } as const;
    const deriving = topology({ name: 'deriving', version: 1, onFailure }, (t) => {
      const stream = t.stream<string>({ topic: 'a' });
      stream.groupByKey().count(table, 'n', { action: 'COUNTED' });
      stream.to({ name: 'b' }, (value) => value);
    });
    expect(whyNotRebuildable(deriving)).to.match(/derives events/);
  });
});
