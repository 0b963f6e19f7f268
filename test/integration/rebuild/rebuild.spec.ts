import { expect } from 'chai';
import kafkajs from 'kafkajs';
import { openAdapters } from '../../../src/app/adapters.ts';
import { createRecordProducer } from '../../../src/kafka/record-producer.ts';
import { connectTopicReader } from '../../../src/kafka/topic-reader.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { topicsOf } from '../../../src/streams/topology.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { fromJournal, openRebuildTools, projectionOf, rebuildable } from '../../support/rebuild-tools.ts';
import { type Client, startTestApp } from '../../support/running-app.ts';
import { expectExactModels, openShopLoad, type ShopLoad, shopModels } from '../../support/shop-load.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace, type Workspace } from '../../support/stack.ts';

describe('a rebuild from the journal', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({ STREAMS_RETRY_DELAY_MS: '100' });
  let space: Workspace;
  let db: Database;
  let client: Client;
  let load: ShopLoad;
  before(async () => {
    space = workspace();
    db = openTestDatabase(space);
    ({ client } = await startTestApp(space));
    load = await openShopLoad(client);
    await load.send(150);
  });

  /** Asks for statistics all the time. Whoever sees a count fall sees half a model. */
  const keepAsking = () => {
    let isStopping = false;
    let asked = 0;
    const ask = async (): Promise<void> => {
      const seen = new Map<string, number>();
      while (!isStopping) {
        for (const productId of load.expected.keys()) {
          const { status, body } = await client.get(`/v1/products/${productId}/statistic`);
          expect(status, JSON.stringify(body)).to.equal(200);
          expect(body.viewCount).to.be.at.least(seen.get(productId) ?? 0);
          seen.set(productId, body.viewCount as number);
          asked++;
        }
        const models = await shopModels(db);
        expect(models?.placed).to.be.at.least(seen.get('orders') ?? 0);
        seen.set('orders', models?.placed ?? 0);
      }
    };
    const asking = ask();
    asking.catch(() => undefined);
    return {
      stop: async (): Promise<number> => {
        isStopping = true;
        await asking;
        return asked;
      },
    };
  };

  /** As a relay does that has lost its position; settles when the projections have passed it all. */
  const sendEverythingAgain = async ({ config, endpoints }: Workspace): Promise<void> => {
    const { kafka, database } = openAdapters(config, endpoints, silentLog());
    await database.close();
    const reader = await connectTopicReader(kafka);
    const producer = createRecordProducer(kafka, config.kafka);
    const topics = [...new Set(rebuildable.flatMap((name) => topicsOf(projectionOf(space, name))))];
    const ranges = await reader.ranges(topics);
    let sent = 0;
    for (const range of ranges) {
      for await (const records of reader.read(range)) {
        sent += records.length;
        await producer.send(
          new Map([
            [range.topic, records.map(({ key, value }) => ({ key, value, partition: range.partition }))],
          ]),
        );
      }
    }
    await producer.close();
    expect(sent).to.be.greaterThan(100);
    await eventually(
      async () => {
        const ends = await reader.ranges(topics);
        const behind = await db.execute(
          {
            name: 'spec-behind',
            text: `
              select from unnest($1::text[], $2::integer[], $3::bigint[]) as range(topic, partition, stop)
              join projection_checkpoint c using (topic, partition)
              join projection_live using (projection, version)
              where c.next_offset < range.stop`,
          },
          [ends.map((end) => end.topic), ends.map((end) => end.partition), ends.map(({ end }) => end)],
        );
        expect(behind).to.have.lengthOf(0);
      },
      { timeoutMs: 120_000 },
    );
    await reader.close();
  };

  it('takes the place of each live model under load, equal row by row, and no query notices', async () => {
    await expectExactModels(db, load);
    const tools = openRebuildTools(space);
    const queries = keepAsking();
    const commands = load.keepSending(3);
    for (const name of rebuildable) {
      const report = await tools.rebuild(projectionOf(space, name), fromJournal);
      expect(report.comparison?.differences, JSON.stringify(report)).to.equal(0);
      expect(report).to.include({ projection: name, outcome: 'swapped', replaces: 1, build: 2 });
      expect(report.events).to.be.greaterThan(0);
    }
    await commands.stop();
    expect(await queries.stop()).to.be.greaterThan(0);
    await expectExactModels(db, load);
  });

  it('goes on counting in the new model, and what Kafka brings again counts once', async () => {
    await load.send(30);
    await expectExactModels(db, load);
    await sendEverythingAgain(space);
    await load.send(30);
    await expectExactModels(db, load);
    const builds = await db.execute<{ projection: string; version: number; status: string }>(
      {
        name: 'spec-builds',
        text: `select projection, version, status from projection_build where projection = any ($1) order by 1, 2`,
      },
      [rebuildable],
    );
    expect(builds.map(({ version, status }) => `${version} ${status}`)).to.deep.equal(
      rebuildable.flatMap(() => ['1 retired', '2 live']),
    );
  });

  it('leaves an entry in the audit', async () => {
    const rows = await db.execute<{ who: string; target: Record<string, unknown> }>({
      name: 'spec-swap-audit',
      text: `select who, target from operator_audit where action = 'projections.swap' order by id`,
    });
    expect(rows.map(({ who, target }) => [who, target.projection, target.differences])).to.deep.equal(
      rebuildable.map((name) => ['spec', name, 0]),
    );
  });

  it('has the same indexes, constraints and settings as the table it replaces', async () => {
    const shapeOf = (schema: string) =>
      db.execute<{ part: string }>(
        {
          name: 'spec-shape-of-table',
          text: `
            select replace(pg_get_indexdef(indexrelid), $1 || '.', '') as part from pg_index
            where indrelid = to_regclass($1 || '.order_view')
            union all
            select conname || ' ' || pg_get_constraintdef(oid) from pg_constraint
            where conrelid = to_regclass($1 || '.order_view')
            union all
            select reloptions::text || ' ' || obj_description(oid, 'pg_class') from pg_class
            where oid = to_regclass($1 || '.order_view')
            order by 1`,
        },
        [schema],
      );
    const live = await shapeOf('public');
    expect(live.length).to.be.greaterThan(4);
    expect(live).to.deep.equal(await shapeOf('build_order_view_1'));
  });

  it('goes back to the model before, which catches up first', async () => {
    const tools = openRebuildTools(space);
    await load.send(20);
    await expectExactModels(db, load);
    const report = await tools.rollBack(projectionOf(space, 'product-statistic'));
    expect(report).to.include({ outcome: 'rolled-back', build: 1, replaces: 2 });
    await expectExactModels(db, load);
    await load.send(20);
    await expectExactModels(db, load);
  });

  it('can be tried without changing anything', async () => {
    const tools = openRebuildTools(space);
    const report = await tools.rebuild(projectionOf(space, 'order-view'), { ...fromJournal, dryRun: true });
    expect(report.comparison?.differences).to.equal(0);
    expect(report.outcome).to.equal('tried');
    const schemas = await db.execute<{ name: string }>({
      name: 'spec-schemas',
      text: `select nspname as name from pg_namespace where nspname like 'build_order_view_%' order by 1`,
    });
    expect(schemas.map(({ name }) => name)).to.deep.equal(['build_order_view_1']);
  });

  it('is refused while another one is under way', async () => {
    const order = projectionOf(space, 'order-view');
    const results = await Promise.allSettled([
      openRebuildTools(space).rebuild(order, { ...fromJournal, dryRun: true }),
      openRebuildTools(space).rebuild(order, { ...fromJournal, dryRun: true }),
    ]);
    const refusals = results.flatMap((result) =>
      result.status === 'rejected' ? [String(result.reason)] : [],
    );
    expect(refusals).to.have.lengthOf(1);
    expect(refusals[0]).to.match(/Somebody else is rebuilding order-view/);
  });

  it('leaves nothing behind when it is broken off', async () => {
    const breaking = new AbortController();
    const tools = openRebuildTools(space, {
      signal: breaking.signal,
      onProgress: () => breaking.abort(new Error('enough')),
    });
    const result = await tools
      .rebuild(projectionOf(space, 'stock-level'), fromJournal)
      .catch((error: Error) => error.message);
    expect(result).to.equal('enough');
    await eventually(async () => {
      const left = await db.execute({
        name: 'spec-left-builds',
        text: `select from projection_build where projection = 'stock-level' and status not in ('live', 'retired')`,
      });
      expect(left).to.have.lengthOf(0);
    });
    await expectExactModels(db, load);
  });

  it('can read topics that are packed with zstd, and not what a transaction has given up', async () => {
    const { kafka, database } = openAdapters(space.config, space.endpoints, silentLog());
    await database.close();
    const order = projectionOf(space, 'order-view');
    const topics = topicsOf(order);
    const admin = kafka.admin();
    await admin.connect();
    // The broker packs everything anew that comes from now on.
    await admin.alterConfigs({
      validateOnly: false,
      resources: topics.map((name) => ({
        type: kafkajs.ConfigResourceTypes.TOPIC,
        name,
        configEntries: [{ name: 'compression.type', value: 'zstd' }],
      })),
    });
    await admin.disconnect();
    await load.send(30);
    const producer = kafka.producer({
      transactionalId: space.unique('t'),
      maxInFlightRequests: 1,
      idempotent: true,
    });
    await producer.connect();
    const transaction = await producer.transaction();
    for (const topic of topics) await transaction.send({ topic, messages: [{ value: 'no event' }] });
    await transaction.abort();
    await producer.disconnect();
    await load.send(30);
    await expectExactModels(db, load);
    const report = await openRebuildTools(space).rebuild(order, {
      ...fromJournal,
      from: 'kafka',
      dryRun: true,
    });
    expect(report).to.deep.include({ outcome: 'tried', setAside: { count: 0, shown: [] } });
    expect(report.comparison?.differences).to.equal(0);
  });
});
