import { once } from 'node:events';
import { createServer, request as httpRequest, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { accessFor, startApp } from '../../../src/app/start-app.ts';
import { frame, frameLength } from '../../../src/avro/confluent-frame.ts';
import { envelopeSchemaOf } from '../../../src/avro/envelope-schema.ts';
import { loadConfig } from '../../../src/config/load-config.ts';
import { productId, userId } from '../../../src/domain/ids.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { connectSchemaRegistry } from '../../../src/registry/schema-registry.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { startTestApp } from '../../support/running-app.ts';
import { appliedBy, comparable, openShopTraffic, type ShopTraffic } from '../../support/shop-traffic.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace, type Workspace } from '../../support/stack.ts';
import { readTopic } from '../../support/topic-reader.ts';

const patience = { timeoutMs: 120_000 };

/** Passes requests on to a registry, or hangs up on them. */
const createRegistryGate = async (target: string) => {
  let isOpen = true;
  const server: Server = createServer((request, response) => {
    if (!isOpen) {
      request.socket.destroy();
      return;
    }
    const url = new URL(target);
    const path = `${url.pathname.replace(/\/$/, '')}${request.url}`;
    const passedOn = httpRequest(
      { host: url.hostname, port: url.port, path, method: request.method, headers: request.headers },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      },
    );
    passedOn.on('error', () => response.destroy());
    request.pipe(passedOn);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    shut: () => {
      isOpen = false;
    },
    open: () => {
      isOpen = true;
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
};

describe('the projector', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({ STREAMS_RETRY_DELAY_MS: '100', STREAMS_POLL_RECORDS_MAX: '500' });
  let space: Workspace;
  let db: Database;
  let traffic: ShopTraffic;
  before(async () => {
    space = workspace();
    db = openTestDatabase(space, 3);
    traffic = await openShopTraffic(space, 7);
    space.closeAtEnd(() => traffic.close());
    await traffic.write(1500);
  });

  const isExact = async (): Promise<void> => {
    await eventually(async () => expect(await appliedBy(db)).to.be.at.least(traffic.written), patience);
    const { found, expected } = await comparable(db, traffic);
    expect(found).to.deep.equal(expected);
  };

  it('counts the same when everything is delivered again', async () => {
    await startTestApp(space, 'projector');
    await isExact();
    await traffic.writeAllAgain();
    await isExact();
  });

  it('shows what it has handled by name', async () => {
    const rows = await db.execute<{ aggregateType: string; action: string; count: number }>({
      name: 'spec-handled-by-name',
      text: `
        select action, count(*) as count from event_handled
        where projection = 'product-statistic' and action like '%SALES%' group by action`,
    });
    const [orders] = await db.execute<{ count: number }>({
      name: 'spec-paid-orders',
      text: `select count(*) as count from order_view where status = 'paid'`,
    });
    expect(rows).to.deep.equal([{ action: 'SALES_COUNT_INCREASED', count: orders?.count }]);
  });

  it('sets aside what nobody can read, each with its cause, and the partition goes on', async () => {
    const registry = connectSchemaRegistry({
      url: space.endpoints.schemaRegistryUrl,
      requestTimeoutMs: 10_000,
      compatibility: 'NONE',
    });
    const view = { type: 'ProductViewed', productId: productId('poison'), userId: null } as const;
    const good = traffic.framed(view, { aggregateId: 'poison_1', time: Date.now() });
    if (!Buffer.isBuffer(good.value)) throw new Error('A view without bytes');
    const strange = await registry.idOf(
      space.unique('strange'),
      JSON.stringify({ type: 'record', name: 'Strange', fields: [{ name: 'a', type: 'string' }] }),
    );
    const { json } = envelopeSchemaOf('ProductViewed');
    const newer = await registry.idOf(
      space.unique('newer'),
      json.replaceAll('ProductViewedV1', 'ProductViewedV9'),
    );
    const unknown = Buffer.from(good.value);
    unknown.writeInt32BE(2_000_000_000, 1);
    const future = Buffer.from(good.value);
    future.writeInt32BE(newer, 1);
    const key = 'poison';
    await traffic.writeRaw('product-view-events', [
      { key, value: Buffer.from('no Avro at all') },
      { key, value: unknown },
      { key, value: frame(strange, Buffer.from([2, 65])) },
      { key, value: future },
      { key, value: good.value.subarray(0, good.value.length - 3) },
      good,
    ]);
    await eventually(async () => {
      const [row] = await db.execute<{ views: number }>({
        name: 'spec-poison-views',
        text: `select view_count as views from product_statistic where product_id = 'poison'`,
      });
      expect(row?.views).to.equal(1);
    }, patience);
    const letters = await readTopic(space.endpoints.kafkaBrokers, space.unique('product-view-events.dlq'));
    const causes = letters
      .filter(({ headers }) => headers['__millrace.projection'] === 'product-statistic')
      .map(({ headers }) => [headers['__millrace.kind'], headers['__streams.errors.message'] ?? '']);
    expect(causes.map(([kind]) => kind)).to.deep.equal(Array.from({ length: 5 }, () => 'undecodable'));
    const [bytes, unknownId, wrongSchema, futureVersion, cut] = causes.map(([, message]) => message);
    expect(bytes).to.match(/schema header/);
    expect(unknownId).to.match(/2000000000/);
    expect(wrongSchema).to.match(/Strange/);
    expect(futureVersion).to.match(/V9/);
    expect(cut).to.match(/ends in the middle|not a|bytes/);
  });

  it('does not start when handled events are forgotten before their records can come back', async () => {
    const { config } = loadConfig({
      env: {
        TOPIC_PREFIX: space.config.topics.prefix,
        PORT: '0',
        STREAMS_HANDLED_RETENTION_MS: String(20 * 86_400_000),
      },
      envFile: '/dev/null',
    });
    const { endpoints } = space;
    const started = startApp({ config, endpoints, role: 'projector', access: undefined, log: silentLog() });
    const error = await started.then(
      () => undefined,
      (refusal: Error) => refusal,
    );
    expect(error?.message).to.match(/STREAMS_HANDLED_RETENTION_MS/);
  });
});

describe('the projector without a registry', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({
    STREAMS_RETRY_DELAY_MS: '100',
    SCHEMA_REGISTRY_REQUEST_TIMEOUT_MS: '1000',
  });

  it('goes on with the schemas it knows, and waits for those it does not know', async () => {
    const space = workspace();
    const db = openTestDatabase(space, 3);
    const traffic = await openShopTraffic(space, 3);
    space.closeAtEnd(() => traffic.close());
    const gate = await createRegistryGate(space.endpoints.schemaRegistryUrl);
    space.closeAtEnd(gate.close);
    const viewed = (name: string) =>
      ({ type: 'ProductViewed', productId: productId(name), userId: null }) as const;
    const seen = async (name: string, views: number): Promise<void> =>
      eventually(async () => {
        const rows = await db.execute<{ views: number }>(
          {
            name: 'spec-views-of',
            text: 'select view_count as views from product_statistic where product_id = $1',
          },
          [name],
        );
        expect(rows).to.deep.equal([{ views }]);
      }, patience);

    const { config } = space;
    const app = await startApp({
      config,
      endpoints: { ...space.endpoints, schemaRegistryUrl: gate.url },
      role: 'projector',
      access: await accessFor(config, 'projector'),
      log: silentLog(),
    });
    space.closeAtEnd(() => app.stop());
    const view = (name: string, index: number) =>
      traffic.framed(viewed(name), { aggregateId: `${name}_${index}`, time: Date.now() });
    await traffic.writeRaw('product-view-events', [view('mill', 1)]);
    await seen('mill', 1);

    // A newer version writes likes with a schema that nobody here has met.
    const registry = connectSchemaRegistry({
      url: space.endpoints.schemaRegistryUrl,
      requestTimeoutMs: 10_000,
      compatibility: 'NONE',
    });
    const { json, type } = envelopeSchemaOf('LikeCreated');
    const content = JSON.parse(json) as { fields: object[] };
    const added = { name: 'added', type: ['null', 'string'], default: null };
    const newId = await registry.idOf(
      space.unique('newer-likes'),
      JSON.stringify({ ...content, fields: [...content.fields, added] }),
    );
    const like = { type: 'LikeCreated', productId: productId('mill'), userId: userId('ann') } as const;
    const { value } = traffic.framed(like, { aggregateId: 'mill_ann', time: Date.now() });
    if (!Buffer.isBuffer(value)) throw new Error('A like without bytes');
    const writer = await registry.writerType(newId);
    const newer = writer.toBuffer({ ...type.fromBuffer(value.subarray(frameLength)), added: 'more' });

    gate.shut();
    // What is known flows; what is not waits in its partition.
    await traffic.writeRaw('like-events', [{ key: 'mill', value: frame(newId, newer) }]);
    await traffic.writeRaw('product-view-events', [view('mill', 2)]);
    await seen('mill', 2);
    const likes = async () =>
      db.execute({
        name: 'spec-likes',
        text: `select like_count as likes from product_statistic where product_id = 'mill'`,
      });
    expect(await likes()).to.deep.equal([{ likes: 0 }]);
    gate.open();
    await eventually(async () => expect(await likes()).to.deep.equal([{ likes: 1 }]), patience);
    expect(await readTopic(space.endpoints.kafkaBrokers, space.unique('like-events.dlq'))).to.deep.equal([]);
  });
});
