import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { consistencyOf } from '../../../src/app/consistency.ts';
import type { Consistency } from '../../../src/consistency/consistency.ts';
import { type OrderId, orderId, paymentId, productId, userId } from '../../../src/domain/ids.ts';
import type { CataloguedEvent } from '../../../src/event-catalogue/event-catalogue.ts';
import type { TopicName } from '../../../src/event-catalogue/topic-name.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { createEnvelopeDecoder } from '../../../src/registry/envelope-decoder.ts';
import type { SchemaRegistry } from '../../../src/registry/schema-registry.ts';
import { TopologyTestDriver } from '../../../src/streams/testing/topology-test-driver.ts';
import { openLiveBuild } from '../../../src/streams-postgres/builds/live-build.ts';
import { createPostgresStateStore } from '../../../src/streams-postgres/postgres-state-store.ts';
import { memoryRegistry, recordOf } from '../../support/commerce-driver.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { projectionOf } from '../../support/rebuild-tools.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace, type Workspace } from '../../support/stack.ts';

const hourMs = 3_600_000;
const startMs = Date.UTC(2026, 0, 1, 12);

describe('waiting for events of a model', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();
  let space: Workspace;
  let db: Database;
  let consistency: Consistency;
  before(() => {
    space = workspace();
    db = openTestDatabase(space, 6);
    consistency = consistencyOf({
      database: db,
      config: space.config,
      observer: { waitersChanged: () => {} },
      log: silentLog(),
    });
    space.closeAtEnd(async () => consistency.close());
  });

  /** A projection on the real store, fed by hand, under the version of a build. */
  const feed = async (model: string, version?: number) => {
    const topology = projectionOf(space, model);
    const live = await openLiveBuild(db, topology);
    const driver = new TopologyTestDriver({
      topology: { ...topology, version: version ?? live.version },
      decoder: createEnvelopeDecoder(memoryRegistry as SchemaRegistry),
      partitions: 1,
      startMs,
      seenStore: createPostgresStateStore({ database: db, appendDerived: async () => {} }),
    });
    return {
      build: live.version,
      tell: async (topic: TopicName, event: CataloguedEvent, details: Parameters<typeof recordOf>[1]) => {
        driver.passTime(Math.max(0, (details.time ?? startMs) - driver.nowMs));
        driver.send(space.unique(topic), recordOf(event, details));
        await driver.run();
      },
      pass: (byMs: number) => driver.advanceWallClock(byMs),
    };
  };
  const waitFor = (
    model: string,
    awaited: { readonly topic: TopicName; readonly eventId: string; readonly occurredAtMs: number },
    waitMs: number,
  ) => consistency.waitFor({ events: [awaited], models: [model], waitMs });

  const created = (id: OrderId): CataloguedEvent => ({
    type: 'OrderCreated',
    orderId: id,
    userId: userId('ann'),
    items: [{ productId: productId('p'), quantity: 1, unitPriceMinor: 5 }],
    total: { amountMinor: 5, currency: 'EUR' },
  });
  const canceled = (id: OrderId): CataloguedEvent => ({
    type: 'OrderCanceled',
    orderId: id,
    userId: userId('ann'),
    items: [{ productId: productId('p'), quantity: 1, unitPriceMinor: 5 }],
    total: { amountMinor: 5, currency: 'EUR' },
  });

  it('does not take a record for applied that waits for an earlier version of its key', async () => {
    const orders = await feed('order-view');
    const id = orderId(randomUUID());
    const eventId = uuidv7();
    const awaited = { topic: 'order-events', eventId, occurredAtMs: startMs } as const;
    await orders.tell('order-events', canceled(id), {
      aggregateId: id,
      version: 2,
      id: eventId,
      time: startMs,
    });
    expect(await waitFor('order-view', awaited, 50)).to.include({
      kind: 'not-caught-up',
      awaited: 1,
      missing: 1,
    });
    await orders.tell('order-events', created(id), { aggregateId: id, version: 1, time: startMs });
    expect(await waitFor('order-view', awaited, 10_000)).to.equal(undefined);
  });

  it('does not take a record for applied that waits for a row of a global table', async () => {
    const receipts = await feed('order-receipt');
    const id = orderId(randomUUID());
    const eventId = uuidv7();
    const awaited = { topic: 'order-events', eventId, occurredAtMs: startMs } as const;
    const paid: CataloguedEvent = {
      ...canceled(id),
      type: 'OrderPaid',
      paymentId: paymentId('pay'),
    } as never;
    await receipts.tell('order-events', paid, { aggregateId: id, version: 2, id: eventId, time: startMs });
    expect(await waitFor('order-receipt', awaited, 50)).to.include({ kind: 'not-caught-up', missing: 1 });
    await receipts.pass(5000);
    expect(await waitFor('order-receipt', awaited, 10_000)).to.equal(undefined);
  });

  it('says that a record missed its window, which is handled and never in the model', async () => {
    const trend = await feed('product-trend');
    const view = { type: 'ProductViewed', productId: productId('seen'), userId: null } as const;
    await trend.tell('product-view-events', view, { aggregateId: 'v1', time: startMs + 5 * hourMs });
    const eventId = uuidv7();
    await trend.tell('product-view-events', view, { aggregateId: 'v2', id: eventId, time: startMs });
    const awaited = { topic: 'product-view-events', eventId, occurredAtMs: startMs } as const;
    expect(await waitFor('product-trend', awaited, 30_000)).to.deep.equal({
      kind: 'missed-window',
      model: 'product-trend',
      missed: 1,
    });
  });

  it('asks the build that is live: what the one before had counts no more after a swap', async () => {
    const first = await feed('stock-level');
    const eventId = uuidv7();
    const registered: CataloguedEvent = {
      type: 'ProductRegistered',
      productId: productId('mill'),
      name: 'Mill',
      price: { amountMinor: 5, currency: 'EUR' },
      stock: 1,
    };
    const details = { aggregateId: 'mill', version: 1, id: eventId, time: startMs };
    const awaited = { topic: 'stock-events', eventId, occurredAtMs: startMs } as const;
    await first.tell('stock-events', registered, details);
    expect(await waitFor('stock-level', awaited, 10_000)).to.equal(undefined);
    const swap = (from: number, to: number) =>
      db.transaction(async (tx) => {
        await tx.execute(
          {
            name: 'spec-retire-build',
            text: `update projection_build set status = 'retired' where projection = 'stock-level' and version = $1`,
          },
          [from],
        );
        await tx.execute(
          {
            name: 'spec-open-build',
            text: `insert into projection_build (projection, version, definition_version, status)
                   values ('stock-level', $1, 1, 'live')
                   on conflict (projection, version) do update set status = 'live'`,
          },
          [to],
        );
      });
    await swap(first.build, first.build + 1);
    expect(await waitFor('stock-level', awaited, 50)).to.include({ kind: 'not-caught-up', missing: 1 });
    await swap(first.build + 1, first.build);
    expect(await waitFor('stock-level', awaited, 10_000)).to.equal(undefined);
  });
});
