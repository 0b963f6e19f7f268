import { expect } from 'chai';
import type { Database } from '../../src/postgres/database.ts';
import { createRandom } from '../../src/streams/testing/topology-test-driver.ts';
import { eventually } from './eventually.ts';
import type { Client } from './running-app.ts';
import type { ExpectedCounts } from './shop-traffic.ts';

/** Commands over HTTP that go on until they are stopped, and what must come of them. */
export interface ShopLoad {
  readonly expected: ReadonlyMap<string, ExpectedCounts>;
  readonly orders: { placed: number; paid: number };
  /** One after the other, so many. */
  send(commands: number): Promise<void>;
  /** Shoppers that go on in the background; settles with the stop, or the first command that is refused. */
  keepSending(shoppers: number): { stop(): Promise<void> };
}

const productCount = 6;
const buyer = 'ann';

export const openShopLoad = async (client: Client, seed = 1): Promise<ShopLoad> => {
  const random = createRandom(seed);
  const expected = new Map<string, ExpectedCounts>();
  const orders = { placed: 0, paid: 0 };
  let users = 0;

  const done = async (answer: ReturnType<Client['post']>): Promise<Record<string, unknown>> => {
    const { status, body } = await answer;
    expect(status, JSON.stringify(body)).to.be.within(200, 299);
    return body;
  };
  for (let index = 0; index < productCount; index++) {
    const product = { name: `Mill ${index}`, priceMinor: 100, currency: 'EUR', stock: 1_000_000 };
    const { productId } = await done(client.post('/v1/products', product));
    expected.set(String(productId), { likes: 0, sales: 0, views: 0 });
  }

  const buy = async (productId: string, counts: ExpectedCounts): Promise<void> => {
    const quantity = 1 + Math.floor(random() * 3);
    const order = { userId: buyer, items: [{ productId, quantity }] };
    const { orderId } = await done(client.post('/v1/orders', order));
    orders.placed++;
    if (random() < 0.2) return;
    const payment = { amountMinor: quantity * 100, method: 'card' };
    const { paymentId } = await done(client.post(`/v1/orders/${orderId}/payments`, payment));
    await done(client.post(`/v1/payments/${paymentId}/confirm`));
    orders.paid++;
    counts.sales += quantity;
  };

  const act = async (): Promise<void> => {
    const [productId, counts] = [...expected][Math.floor(random() * expected.size)] as [
      string,
      ExpectedCounts,
    ];
    const chance = random();
    if (chance < 0.5) {
      await done(client.post(`/v1/products/${productId}/views`, {}));
      counts.views++;
    } else if (chance < 0.8) {
      const path = `/v1/products/${productId}/likes/user-${users++}`;
      await done(client.send('PUT', path));
      counts.likes++;
      if (random() < 0.8) return;
      await done(client.send('DELETE', path));
      counts.likes--;
    } else await buy(productId, counts);
  };

  return {
    expected,
    orders,
    send: async (commands) => {
      for (let sent = 0; sent < commands; sent++) await act();
    },
    keepSending: (shoppers) => {
      let isStopping = false;
      const shop = async (): Promise<void> => {
        while (!isStopping) await act();
      };
      const shopping = Promise.all(Array.from({ length: shoppers }, shop));
      shopping.catch(() => undefined);
      return {
        stop: async () => {
          isStopping = true;
          await shopping;
        },
      };
    },
  };
};

const modelStatement = {
  name: 'spec-shop-models',
  text: `
    select
      (select json_object_agg(product_id, json_build_object('likes', like_count, 'sales', sales_count, 'views', view_count))
       from product_statistic) as statistic,
      (select count(*) from order_view) as placed,
      (select count(*) from order_view where status = 'paid') as paid,
      (select count(*) from stock_level) as products`,
};

/** The read models, in the shape of what is expected of them. */
export const shopModels = async (db: Database) => {
  const [row] = await db.execute<{
    statistic: Record<string, ExpectedCounts> | null;
    placed: number;
    paid: number;
    products: number;
  }>(modelStatement);
  return row;
};

/** What the load must have come to, when everything has arrived. */
export const expectExactModels = (
  db: Database,
  { expected, orders }: ShopLoad,
  timeoutMs = 120_000,
): Promise<void> =>
  eventually(
    async () => {
      expect(await shopModels(db)).to.deep.equal({
        statistic: Object.fromEntries(expected),
        ...orders,
        products: expected.size,
      });
    },
    { timeoutMs },
  );
