import { Kafka, logLevel, type Message } from 'kafkajs';
import { v7 as uuidv7 } from 'uuid';
import { openAdapters } from '../../src/app/adapters.ts';
import { prepareBroker } from '../../src/app/prepare.ts';
import { envelopeSchemaOf } from '../../src/avro/envelope-schema.ts';
import { orderId, paymentId, productId, userId } from '../../src/domain/ids.ts';
import { type CataloguedEvent, eventCatalogue } from '../../src/event-catalogue/event-catalogue.ts';
import type { Database } from '../../src/postgres/database.ts';
import { registerSchemas } from '../../src/registry/register-schemas.ts';
import { createRandom } from '../../src/streams/testing/topology-test-driver.ts';
import { recordOf, schemaIdOf } from './commerce-driver.ts';
import { silentLog } from './silent-log.ts';
import type { Workspace } from './stack.ts';

/** What a product must come to. */
export interface ExpectedCounts {
  likes: number;
  sales: number;
  views: number;
}

/** Records in the topics of a workspace as a relay would have written them, and what must come of them. */
export interface ShopTraffic {
  /** Writes events of many products; some of them twice. */
  write(count: number): Promise<void>;
  /** Writes everything again that was written before. */
  writeAllAgain(): Promise<void>;
  writeRaw(topic: string, messages: readonly Message[]): Promise<void>;
  /** A record's bytes for this workspace's registry. */
  framed(event: CataloguedEvent, details: Parameters<typeof recordOf>[1]): Message;
  readonly expected: ReadonlyMap<string, ExpectedCounts>;
  readonly written: number;
  close(): Promise<void>;
}

const productCount = 40;

export const openShopTraffic = async (workspace: Workspace, seed = 1): Promise<ShopTraffic> => {
  const { config, endpoints, unique } = workspace;
  const adapters = openAdapters(config, endpoints, silentLog());
  await prepareBroker(adapters, config, silentLog());
  const registered = await registerSchemas(adapters.registry);
  await adapters.database.close();
  const ids = new Map(registered.map(({ fullName, schemaId }) => [fullName, schemaId]));

  // What is written is counted, so a send that is repeated must not be there twice.
  const producer = new Kafka({
    brokers: [...endpoints.kafkaBrokers],
    connectionTimeout: 30_000,
    logLevel: logLevel.NOTHING,
  }).producer({
    idempotent: true,
    maxInFlightRequests: 1,
  });
  await producer.connect();
  const random = createRandom(seed);
  const expected = new Map<string, ExpectedCounts>();
  const sent = new Map<string, Message[]>();
  let written = 0;

  const framed: ShopTraffic['framed'] = (event, details) => {
    const { key, value } = recordOf(event, details);
    const id = ids.get(envelopeSchemaOf(event.type).fullName);
    if (!value || id === undefined) throw new Error(`${event.type} is not registered`);
    value.writeInt32BE(id, 1);
    return { key, value };
  };

  const countsOf = (product: string): ExpectedCounts => {
    const counts = expected.get(product) ?? { likes: 0, sales: 0, views: 0 };
    expected.set(product, counts);
    return counts;
  };

  /** An event, and its effect on what is expected. */
  const make = (): readonly { event: CataloguedEvent; details: Parameters<typeof recordOf>[1] }[] => {
    const product = `product-${Math.floor(random() * productCount)}`;
    const chance = random();
    const id = uuidv7();
    const time = Date.now();
    const of = { productId: productId(product) };
    if (chance < 0.5) {
      countsOf(product).views++;
      return [
        {
          event: { type: 'ProductViewed', ...of, userId: null },
          details: { aggregateId: `${product}_${id}`, id, time },
        },
      ];
    }
    if (chance < 0.9) {
      const user = `user-${uuidv7()}`;
      const like = { ...of, userId: userId(user) };
      const details = { aggregateId: `${product}_${user}`, time };
      countsOf(product).likes++;
      if (chance < 0.8) return [{ event: { type: 'LikeCreated', ...like }, details: { ...details, id } }];
      countsOf(product).likes--;
      return [
        { event: { type: 'LikeCreated', ...like }, details: { ...details, id, version: 1 } },
        { event: { type: 'LikeCanceled', ...like }, details: { ...details, version: 2 } },
      ];
    }
    const quantity = 1 + Math.floor(random() * 5);
    countsOf(product).sales += quantity;
    const order = {
      orderId: orderId(`order-${id}`),
      userId: userId('ann'),
      items: [{ ...of, quantity, unitPriceMinor: 100 }],
      total: { amountMinor: 100 * quantity, currency: 'EUR' },
    };
    const details = { aggregateId: `order-${id}`, time };
    return [
      { event: { type: 'OrderCreated', ...order }, details: { ...details, version: 1 } },
      {
        event: { type: 'OrderPaid', ...order, paymentId: paymentId('p') },
        details: { ...details, id, version: 2 },
      },
    ];
  };

  const send = async (messages: ReadonlyMap<string, readonly Message[]>): Promise<void> => {
    await producer.sendBatch({
      topicMessages: [...messages].map(([topic, own]) => ({ topic, messages: [...own] })),
    });
    for (const own of messages.values()) written += own.length;
  };

  return {
    expected,
    framed,
    get written() {
      return written;
    },
    write: async (count) => {
      const batch = new Map<string, Message[]>();
      for (let index = 0; index < count; index++) {
        const again = random() < 0.02;
        for (const { event, details } of make()) {
          const topic = unique(eventCatalogue[event.type].topic);
          const message = framed(event, details);
          const own = batch.get(topic) ?? [];
          batch.set(topic, own);
          own.push(message);
          if (again) own.push(message);
        }
      }
      for (const [topic, own] of batch) sent.set(topic, [...(sent.get(topic) ?? []), ...own]);
      await send(batch);
    },
    writeAllAgain: () => send(sent),
    writeRaw: async (topic, messages) => {
      await producer.send({ topic: unique(topic), messages: [...messages] });
    },
    close: () => producer.disconnect(),
  };
};

export { schemaIdOf };

const statisticStatement = {
  name: 'spec-statistics',
  text: `
    select product_id as product, like_count as likes, sales_count as sales, view_count as views
    from product_statistic where like_count + sales_count + view_count > 0 order by product_id`,
};

/** The statistics as they are, in the shape of what is expected. */
export const readStatistics = async (db: Database): Promise<ReadonlyMap<string, ExpectedCounts>> => {
  const rows = await db.execute<ExpectedCounts & { product: string }>(statisticStatement);
  return new Map(rows.map(({ product, ...counts }) => [product, counts]));
};

const byProduct = (counts: ReadonlyMap<string, ExpectedCounts>): Readonly<Record<string, ExpectedCounts>> =>
  Object.fromEntries(
    [...counts]
      .filter(([, { likes, sales, views }]) => likes + sales + views > 0)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );

/** Both as plain objects, so that a difference is easy to read. */
export const comparable = async (db: Database, traffic: ShopTraffic) => ({
  found: byProduct(await readStatistics(db)),
  expected: byProduct(traffic.expected),
});

const checkpointStatement = {
  name: 'spec-applied',
  text: `select coalesce(sum(next_offset), 0) as applied from projection_checkpoint where projection = $1`,
};

/** How many records a projection has passed. */
export const appliedBy = async (db: Database, projection = 'product-statistic'): Promise<number> => {
  const [row] = await db.execute<{ applied: number }>(checkpointStatement, [projection]);
  return Number(row?.applied ?? 0);
};
