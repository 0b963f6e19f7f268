import type { Kafka } from 'kafkajs';
import { v7 as uuidv7 } from 'uuid';
import { frame } from '../../src/avro/confluent-frame.ts';
import { envelopeSchemaOf } from '../../src/avro/envelope-schema.ts';
import { orderId, paymentId, productId, userId } from '../../src/domain/ids.ts';
import {
  type CataloguedEvent,
  eventCatalogue,
  partitionKeyOf,
} from '../../src/event-catalogue/event-catalogue.ts';
import { encodeHeaders } from '../../src/kafka/header-block.ts';
import { createRecordProducer, type OutgoingRecord } from '../../src/kafka/record-producer.ts';
import { registerSchemas } from '../../src/registry/register-schemas.ts';
import type { SchemaRegistry } from '../../src/registry/schema-registry.ts';
import { createRandom } from '../../src/streams/testing/topology-test-driver.ts';

const pageSize = 10_000;
const products = 1000;
const requestTimeoutMs = 30_000;

/** What must come of a backlog. */
export interface Totals {
  records: number;
  likes: number;
  sales: number;
  views: number;
}

const sharedHeaders = encodeHeaders({
  ce_specversion: '1.0',
  ce_source: 'millrace',
  'content-type': 'application/avro',
});

/** Writes the backlog as a relay would have, and tells what must come of it. */
export const fillTopics = async (kafka: Kafka, registry: SchemaRegistry, events: number): Promise<Totals> => {
  const registered = await registerSchemas(registry);
  const ids = new Map(registered.map(({ fullName, schemaId }) => [fullName, schemaId]));
  const producer = createRecordProducer(kafka, { inFlightMax: 5, produceTimeoutMs: requestTimeoutMs });
  const random = createRandom(1);
  const totals: Totals = { records: 0, likes: 0, sales: 0, views: 0 };
  // As if they had happened at a thousand a second until now.
  const startedMs = Date.now() - events;
  let made = 0;

  const recordOf = (
    event: CataloguedEvent,
    aggregateId: string,
    version: number,
  ): [string, OutgoingRecord] => {
    const { type: name, ...data } = event;
    const { eventType, aggregateType, topic } = eventCatalogue[name];
    const schema = envelopeSchemaOf(name);
    const id = uuidv7();
    const payload = schema.type.toBuffer({
      id,
      type: eventType,
      source: 'millrace',
      aggregateType,
      aggregateId,
      aggregateVersion: version,
      time: startedMs + made,
      correlationId: id,
      causationId: id,
      traceparent: null,
      data,
    });
    made++;
    const value = frame(ids.get(schema.fullName) ?? 0, payload);
    return [
      topic,
      { key: partitionKeyOf(event), value, sharedHeaders, headers: { ce_id: id, ce_type: eventType } },
    ];
  };

  const next = (): readonly [string, OutgoingRecord][] => {
    // Squared, so that a few products have most of it.
    const product = `product-${Math.floor(random() ** 2 * products)}`;
    const of = { productId: productId(product) };
    const chance = random();
    if (chance < 0.5) {
      totals.views++;
      return [recordOf({ type: 'ProductViewed', ...of, userId: null }, `${product}_${uuidv7()}`, 1)];
    }
    if (chance < 0.85) {
      const user = uuidv7();
      const like = { ...of, userId: userId(user) };
      const created = recordOf({ type: 'LikeCreated', ...like }, `${product}_${user}`, 1);
      totals.likes++;
      if (chance < 0.8) return [created];
      totals.likes--;
      return [created, recordOf({ type: 'LikeCanceled', ...like }, `${product}_${user}`, 2)];
    }
    const order = uuidv7();
    const quantity = 1 + Math.floor(random() * 3);
    totals.sales += quantity;
    return [
      recordOf(
        {
          type: 'OrderPaid',
          orderId: orderId(order),
          userId: userId('buyer'),
          items: [{ ...of, quantity, unitPriceMinor: 100 }],
          total: { amountMinor: 100 * quantity, currency: 'EUR' },
          paymentId: paymentId(order),
        },
        order,
        1,
      ),
    ];
  };

  while (made < events) {
    const page = new Map<string, OutgoingRecord[]>();
    for (let size = 0; size < pageSize && made < events; ) {
      for (const [topic, record] of next()) {
        const records = page.get(topic) ?? [];
        page.set(topic, records);
        records.push(record);
        if (random() < 0.01) records.push(record);
        size++;
      }
    }
    for (const records of page.values()) totals.records += records.length;
    await producer.send(page);
  }
  await producer.close();
  return totals;
};
