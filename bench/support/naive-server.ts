import { randomUUID } from 'node:crypto';
import { fastify } from 'fastify';
import { Type } from 'typebox';
import { v7 as uuidv7 } from 'uuid';
import { productId } from '../../src/domain/ids.ts';
import { sealEvent } from '../../src/journal/seal-event.ts';
import { openDatabase } from '../../src/postgres/database.ts';

/** The obvious way to take a view: check it, encode it, one INSERT, answer. No idempotency, no shared commits. */
const database = openDatabase({
  url: process.env.DATABASE_URL ?? '',
  applicationName: 'naive',
  poolSizeMax: 10,
  connectTimeoutMs: 5000,
  statementTimeoutMs: 30_000,
  idleTransactionTimeoutMs: 30_000,
  onIdleError: () => {},
});

const statement = {
  name: 'naive-insert',
  text: `
    insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version, partition_key,
                        request_id, schema_fingerprint, payload, content_hash, occurred_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
};

const server = fastify();
const params = Type.Object({ productId: Type.String() });
server.post<{ Params: { productId: string } }>(
  '/v1/products/:productId/views',
  { schema: { params } },
  async (request, reply) => {
    const eventId = uuidv7();
    const requestId = randomUUID();
    const event = sealEvent({
      eventId,
      stream: { aggregateType: 'ProductView', aggregateId: `${request.params.productId}_${eventId}` },
      version: 1,
      event: { type: 'ProductViewed', productId: productId(request.params.productId), userId: null },
      occurredAt: new Date(),
      source: 'naive',
      context: { requestId, correlationId: requestId, traceparent: null },
    });
    await database.execute(statement, [
      event.eventId,
      event.eventType,
      event.source,
      event.stream.aggregateType,
      event.stream.aggregateId,
      event.version,
      event.partitionKey,
      event.requestId,
      event.schemaFingerprint,
      event.payload,
      event.contentHash,
      event.occurredAt,
    ]);
    return reply.code(201).send({ productId: request.params.productId, version: 1 });
  },
);

const url = await server.listen({ host: '127.0.0.1', port: 0 });
console.log(`The naive server is ready: ${url}`);
process.on('SIGTERM', () => {
  void server
    .close()
    .then(() => database.close())
    .then(() => process.exit());
});
