import { expect } from 'chai';
import type { Database } from '../../../src/postgres/database.ts';
import { type ProductCount, productCounts } from '../../../src/read-model/list-products.ts';
import type { StockOutage } from '../../../src/read-model/list-stock-outages.ts';
import type { Direction, Page, Position } from '../../../src/read-model/page.ts';
import { createQueries, type Queries } from '../../../src/read-model/queries.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';

const products = 57;
const orders = 40;

describe('queries of the read models', () => {
  const workspace = useWorkspace();
  let db: Database;
  let queries: Queries;
  const run = (name: string, text: string) => db.execute({ name: `spec-${name}`, text });
  before(async () => {
    db = openTestDatabase(workspace());
    queries = createQueries(db);
    // Few different counts, so that many are equal; one product of each model that the other does not know.
    await run(
      'stock',
      `insert into stock_level (product_id, name, price_minor, currency, stock, version, updated_at)
       select 'p-' || n, 'Product ' || n, n * 100, case when n % 4 = 0 then 'USD' else 'EUR' end, n % 3, n, now()
       from generate_series(1, ${products}) n
       union all select 'only-stock', 'x', 1, 'EUR', 1, 1, now()`,
    );
    await run(
      'statistic',
      `insert into product_statistic (product_id, like_count, sales_count, view_count)
       select 'p-' || n, n % 5, n % 7, n * 10 from generate_series(1, ${products}) n
       union all select 'only-statistic', 1, 1, 1`,
    );
    await run(
      'orders',
      `insert into order_view (order_id, user_id, status, items, total_minor, currency, payment_id, version, created_at,
                               updated_at, history)
       select 'o-' || n, case when n % 2 = 0 then 'ann' else 'bob' end,
              case n % 3 when 0 then 'created' when 1 then 'paid' else 'canceled' end,
              '[{"productId": "p-1", "quantity": 1, "unitPriceMinor": 5}]', 5, 'EUR', null, 1,
              timestamptz '2026-01-01 00:00:00.123Z' + (n / 4) * interval '1 second', now(),
              '[{"version": 1, "event": "loopers.order.created.v1", "at": "2026-01-01T00:00:00.123Z"}]'
       from generate_series(1, ${orders}) n`,
    );
    await run(
      'trends',
      `insert into product_trend (window_start, product_id, like_count, sales_count, view_count)
       values ('2026-01-01 11:05Z', 'p-1', 0, 3, 1), ('2026-01-01 11:05Z', 'p-2', 9, 5, 0),
              ('2026-01-01 11:05Z', 'gone', 1, 3, 0), ('2026-01-01 11:10Z', 'p-3', 0, 99, 99)`,
    );
    await run(
      'momentum',
      `insert into product_momentum (product_id, window_start, window_end, closes_at, view_count, like_count)
       select product_id, window_end - interval '10 minutes', window_end, window_end + interval '1 minute', views, likes
       from (values ('p-1', timestamptz '2026-01-01 11:05Z', 3, 1), ('p-2', '2026-01-01 11:05Z', 4, 0),
                    ('gone', '2026-01-01 11:04Z', 1, 6), ('p-3', '2026-01-01 11:03Z', 99, 99)
            ) given (product_id, window_end, views, likes)`,
    );
  });

  it('show a receipt with its lines in their order, once it is whole', async () => {
    const lines = ['flour', 'mill'].map((name, index) => ({
      product_id: `p-${index}`,
      name: index === 0 ? name : null,
      quantity: index + 1,
      unit_price_minor: 5,
    }));
    await run(
      'receipts',
      `insert into order_receipt (order_id, user_id, payment_id, total_minor, currency, line_count, lines, paid_at)
       select 'receipt-' || n, 'ann', 'pay', 15, 'EUR', n, '${JSON.stringify(lines)}', '2026-01-01 00:00Z'
       from generate_series(2, 3) n`,
    );
    expect(await queries.getOrderReceipt('receipt-2')).to.deep.equal({
      orderId: 'receipt-2',
      userId: 'ann',
      paymentId: 'pay',
      totalMinor: 15,
      currency: 'EUR',
      lines: [
        { productId: 'p-0', name: 'flour', quantity: 1, unitPriceMinor: 5 },
        { productId: 'p-1', name: null, quantity: 2, unitPriceMinor: 5 },
      ],
      paidAt: new Date('2026-01-01T00:00:00Z'),
    });
    expect(await queries.getOrderReceipt('receipt-3'), 'a line is still waited for').to.equal(null);
    expect(await queries.getOrderReceipt('nobody')).to.equal(null);
  });

  const allPages = async <Item, Value>(
    read: (after: Position<Value> | undefined) => Promise<Page<Item, Value>>,
  ): Promise<readonly Item[]> => {
    const items: Item[] = [];
    let after: Position<Value> | undefined;
    do {
      const page = await read(after);
      items.push(...page.items);
      after = page.next ?? undefined;
    } while (after);
    return items;
  };

  for (const sort of Object.keys(productCounts) as ProductCount[]) {
    for (const direction of ['asc', 'desc'] as const satisfies readonly Direction[]) {
      it(`page through the products by ${sort} ${direction}, each once and in order`, async () => {
        const whole = await queries.listProducts({ sort, direction, limit: 1000 });
        expect(whole.next).to.equal(null);
        expect(whole.items).to.have.length(products);
        const counts = whole.items.map((product) => product[productCounts[sort].field]);
        const sorted = counts.toSorted((a, b) => (direction === 'asc' ? a - b : b - a));
        expect(counts).to.deep.equal(sorted);
        for (const limit of [1, 10, 19]) {
          const paged = await allPages((after: Position<number> | undefined) =>
            queries.listProducts({ sort, direction, limit, after }),
          );
          expect(paged).to.deep.equal(whole.items);
        }
      });
    }
  }

  it('keep to the filters on every page', async () => {
    const filters = { inStock: true, currency: 'EUR', priceMinorMin: 500, priceMinorMax: 4000 };
    const found = await allPages((after: Position<number> | undefined) =>
      queries.listProducts({ sort: 'sales', direction: 'desc', limit: 4, after, ...filters }),
    );
    const numbers = found.map(({ productId }) => Number(productId.slice(2))).toSorted((a, b) => a - b);
    const expected = Array.from({ length: 36 }, (_, index) => index + 5).filter(
      (n) => n % 4 > 0 && n % 3 > 0,
    );
    expect(numbers).to.deep.equal(expected);
    const soldOut = await queries.listProducts({ sort: 'views', direction: 'asc', limit: 1, inStock: false });
    expect(soldOut.items[0]).to.include({ productId: 'p-3', stock: 0, name: 'Product 3' });
  });

  it('find a product, or say that there is none', async () => {
    const product = await queries.getProduct('p-7');
    expect(product).to.include({
      productId: 'p-7',
      name: 'Product 7',
      priceMinor: 700,
      stock: 1,
      version: 7,
    });
    expect(await queries.getProduct('only-statistic')).to.equal(null);
  });

  it('page through the orders of one user, of all, and of one status', async () => {
    for (const direction of ['asc', 'desc'] as const) {
      const page = (filter: { userId?: string; status?: 'paid' }) =>
        allPages((after: Position<Date> | undefined) =>
          queries.listOrders({ direction, limit: 3, after, ...filter }),
        );
      const everybody = await page({});
      expect(new Set(everybody.map(({ orderId }) => orderId)).size).to.equal(orders);
      const times = everybody.map(({ createdAt }) => createdAt.getTime());
      expect(times).to.deep.equal(times.toSorted((a, b) => (direction === 'asc' ? a - b : b - a)));
      const anns = await page({ userId: 'ann' });
      expect(anns).to.deep.equal(everybody.filter(({ userId }) => userId === 'ann'));
      expect(anns).to.have.length(orders / 2);
      const paid = await page({ userId: 'ann', status: 'paid' });
      expect(paid).to.deep.equal(anns.filter(({ status }) => status === 'paid'));
      expect(paid.length).to.be.greaterThan(0);
    }
  });

  it('page through the products that are out of stock, all or those that are overdue', async () => {
    await run(
      'outages',
      `insert into stock_outage (product_id, name, out_since, overdue_at)
       select 'p-' || n, 'Product ' || n, timestamptz '2026-01-01Z' + (n / 4) * interval '1 hour',
              case when n <= 10 then timestamptz '2026-01-02Z' + (n / 4) * interval '1 hour' end
       from generate_series(1, 30) n`,
    );
    for (const direction of ['asc', 'desc'] as const) {
      for (const isOverdue of [undefined, true, false]) {
        const found = await allPages<StockOutage, Date>((after) =>
          queries.listStockOutages({ direction, limit: 7, after, isOverdue }),
        );
        expect(found.length).to.equal(isOverdue === undefined ? 30 : isOverdue ? 10 : 20);
        expect(new Set(found.map(({ productId }) => productId)).size).to.equal(found.length);
        const times = found.map(({ outSince }) => outSince.getTime());
        expect(times).to.deep.equal(times.toSorted((a, b) => (direction === 'asc' ? a - b : b - a)));
        if (isOverdue !== undefined)
          expect(found.every(({ overdueAt }) => (overdueAt !== null) === isOverdue)).to.equal(true);
      }
    }
  });

  it('find an order and its history, also one whose entries are short', async () => {
    expect(await queries.getOrder('o-2')).to.deep.include({
      orderId: 'o-2',
      userId: 'ann',
      status: 'canceled',
      items: [{ productId: 'p-1', quantity: 1, unitPriceMinor: 5 }],
      createdAt: new Date('2026-01-01T00:00:00.123Z'),
    });
    expect(await queries.getOrderHistory('o-2')).to.deep.equal({
      userId: 'ann',
      version: 1,
      events: [{ version: 1, event: 'loopers.order.created.v1', at: '2026-01-01T00:00:00.123Z' }],
    });
    expect(await queries.getOrder('o-0')).to.equal(null);
    expect(await queries.getOrderHistory('o-0')).to.equal(null);
  });

  it('tell the top of the window that has seen most', async () => {
    const ask = (sort: ProductCount, limit = 10) =>
      queries.topTrends({ at: new Date('2026-01-01T12:02:00Z'), sort, limit });
    const { window, products: top } = await ask('sales');
    expect(window).to.deep.equal({
      from: new Date('2026-01-01T11:05:00Z'),
      to: new Date('2026-01-01T12:05:00Z'),
    });
    expect(top.map(({ productId, name, salesCount }) => [productId, name, salesCount])).to.deep.equal([
      ['p-2', 'Product 2', 5],
      ['gone', null, 3],
      ['p-1', 'Product 1', 3],
    ]);
    expect((await ask('likes', 1)).products.map(({ productId }) => productId)).to.deep.equal(['p-2']);
    expect((await ask('views')).products.map(({ productId }) => productId)).to.deep.equal(['p-1']);
  });

  it('tell what is looked at and liked right now, and nothing whose time is over', async () => {
    const ask = (time: string, limit = 10) =>
      queries.risingProducts({ at: new Date(`2026-01-01T${time}Z`), limit });
    expect(await ask('11:04:30')).to.deep.equal([
      { productId: 'gone', name: null, viewCount: 1, likeCount: 6, ...tenMinutesUpTo('11:04') },
      { productId: 'p-1', name: 'Product 1', viewCount: 3, likeCount: 1, ...tenMinutesUpTo('11:05') },
      { productId: 'p-2', name: 'Product 2', viewCount: 4, likeCount: 0, ...tenMinutesUpTo('11:05') },
    ]);
    expect((await ask('11:05:00')).map(({ productId }) => productId)).to.deep.equal(['p-1', 'p-2']);
    expect((await ask('11:05:00', 1)).map(({ productId }) => productId)).to.deep.equal(['p-1']);
    expect(await ask('11:06:00')).to.deep.equal([]);
  });
});

const tenMinutesUpTo = (time: string) => {
  const to = new Date(`2026-01-01T${time}:00Z`);
  return { from: new Date(to.getTime() - 600_000), to };
};
