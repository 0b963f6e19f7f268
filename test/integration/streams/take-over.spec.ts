import { expect } from 'chai';
import { openAdapters } from '../../../src/app/adapters.ts';
import { startProjector } from '../../../src/app/start-projector.ts';
import type { EventEnvelope } from '../../../src/avro/envelope.ts';
import { productId } from '../../../src/domain/ids.ts';
import { createMetricRegistry } from '../../../src/metrics/metric-registry.ts';
import { measureStreams } from '../../../src/metrics/streams-metrics.ts';
import type { Database } from '../../../src/postgres/database.ts';
import type { EnvelopeStream } from '../../../src/projections/of-event.ts';
import { adoptByHand } from '../../../src/rebuild/adopt-build.ts';
import { BuildReplaced } from '../../../src/streams/ports.ts';
import { type Topology, topology } from '../../../src/streams/topology.ts';
import { createPostgresStateStore } from '../../../src/streams-postgres/postgres-state-store.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { startTestApp } from '../../support/running-app.ts';
import { openShopTraffic, type ShopTraffic } from '../../support/shop-traffic.ts';
import { recordingLog, silentLog } from '../../support/silent-log.ts';
import { useWorkspace, type Workspace } from '../../support/stack.ts';

const patience = { timeoutMs: 60_000 };
const products = ['mill', 'race', 'wheel', 'sluice'];

/** Tells somebody outside of every view, and counts the views of each product under a name that every version has. */
const telling = (views: EnvelopeStream, version: number, told: string[]): Topology =>
  topology(
    {
      name: 'telling',
      version,
      onFailure: { retries: 3, backoffMs: 10, afterRetries: 'skip-record' },
    },
    (t) => {
      const viewed = t.stream(views);
      viewed.call('tell', async (events: readonly EventEnvelope[]) => {
        told.push(...events.map(({ aggregateId }) => aggregateId));
      });
      viewed.groupByKey().aggregate<{ views: number }>('kept', {
        initial: { views: 0 },
        fold: ({ views: seen }) => ({ views: seen + 1 }),
      });
      viewed
        .groupByKey()
        .aggregate<{ views: number }>(`only-${version}`, { initial: { views: 0 }, fold: (state) => state });
    },
  );

describe('a new version of a projection that calls out', function () {
  this.timeout(240_000);
  const workspace = useWorkspace({ STREAMS_RETRY_DELAY_MS: '100', STREAMS_HEARTBEAT_INTERVAL_MS: '300' });
  let space: Workspace;
  let db: Database;
  let traffic: ShopTraffic;
  const sent: string[] = [];

  before(async () => {
    space = workspace();
    db = openTestDatabase(space, 3);
    traffic = await openShopTraffic(space);
    space.closeAtEnd(() => traffic.close());
    await startTestApp(space, 'relay');
  });

  const run = async (version: number) => {
    const { log, lines } = recordingLog();
    const told: string[] = [];
    const adapters = openAdapters(space.config, space.endpoints, silentLog());
    const projector = await startProjector({
      adapters,
      cache: { forget: async () => {} },
      config: space.config,
      observer: measureStreams(createMetricRegistry()),
      databaseUrl: space.endpoints.databaseUrl,
      log,
      topologies: [telling({ topic: space.unique('product-view-events') }, version, told)],
    });
    let stopped: Promise<void> | undefined;
    const stop = (): Promise<void> => {
      stopped ??= projector.stop().then(() => adapters.database.close());
      return stopped;
    };
    space.closeAtEnd(stop);
    return { told, lines, stop };
  };
  const view = async (count: number): Promise<void> => {
    const events = Array.from({ length: count }, (_, index) => {
      const id = `view_${sent.length + index}`;
      const viewed = productId(products[index % products.length] as string);
      return {
        id,
        framed: traffic.framed(
          { type: 'ProductViewed', productId: viewed, userId: null },
          { aggregateId: id, time: Date.now() },
        ),
      };
    });
    await traffic.writeRaw(
      'product-view-events',
      events.map(({ framed }) => framed),
    );
    sent.push(...events.map(({ id }) => id));
  };
  const counted = async (): Promise<number> => {
    const [row] = await db.execute<{ views: number | null }>({
      name: 'spec-views-kept',
      text: `select sum((value ->> 'views')::integer)::integer as views from projection_state
             where projection = 'telling' and state = 'kept'`,
    });
    return row?.views ?? 0;
  };
  const isCounted = () => eventually(async () => expect(await counted()).to.equal(sent.length), patience);
  const stateNames = async (): Promise<readonly string[]> => {
    const rows = await db.execute<{ state: string }>({
      name: 'spec-state-names',
      text: `select distinct state from projection_state where projection = 'telling' order by state`,
    });
    return rows.map(({ state }) => state);
  };
  /** Every view was told to somebody, and nothing is missing from what is kept. */
  const isTold = (...processes: readonly { readonly told: readonly string[] }[]) =>
    eventually(
      () => expect(new Set(processes.flatMap(({ told }) => told))).to.deep.equal(new Set(sent)),
      patience,
    );

  it('goes on where the one before stood, while that still runs, and nothing is missed or counted twice', async () => {
    const first = await run(1);
    await view(40);
    await isCounted();
    expect(await stateNames()).to.deep.equal(['kept', 'only-1']);

    const second = await run(2);
    await view(40);
    await isCounted();
    await isTold(first, second);
    expect(await stateNames()).to.deep.equal(['kept', 'only-2']);

    await eventually(() => {
      expect(first.lines.map(({ msg }) => msg).join('\n')).to.match(
        /newer version.*has taken over; this process waits/,
      );
    }, patience);
    const toldByFirst = first.told.length;
    await view(40);
    await isCounted();
    await isTold(first, second);
    expect(first.told.length, 'the older version').to.equal(toldByFirst);
    await first.stop();
    await second.stop();
  });

  it('is not undone by an older one that starts, unless an operator wants it', async () => {
    const older = await run(1);
    await view(20);
    expect(older.told).to.deep.equal([]);
    const adoption = await adoptByHand(
      { database: db, who: 'spec' },
      telling({ topic: space.unique('product-view-events') }, 1, []),
    );
    expect(adoption).to.deep.include({ from: 2, to: 1, build: 1 });
    await isCounted();
    const audit = await db.execute<{ who: string; from: number; to: number }>({
      name: 'spec-adoptions',
      text: `select who, (target ->> 'from')::integer as "from", (target ->> 'to')::integer as "to"
             from operator_audit where action = 'projections.adopt' order by id`,
    });
    expect(audit.map(({ who, from, to }) => [who.startsWith('projector:') || who, from, to])).to.deep.equal([
      [true, 1, 2],
      ['spec', 2, 1],
    ]);
  });

  it('refuses what a process with the version before wants to commit', async () => {
    const storeOf = (version: number) =>
      createPostgresStateStore({
        database: db,
        appendDerived: async () => {},
        definitions: new Map([['telling', version]]),
      });
    const nothing = {
      moves: [],
      handled: [],
      reopened: [],
      missed: [],
      facts: [],
      deltas: [],
      states: [],
      parked: [],
      derived: [],
    };
    const commit = (version: number, partition: number) =>
      storeOf(version)
        .commit({
          ...nothing,
          projection: { name: 'telling', version: 1 },
          tasks: [{ partition, expectedCommits: undefined, streamTimeMs: 0 }],
        })
        .catch((error: Error) => error);
    expect(await commit(1, 100)).to.include({ kind: 'committed' });
    expect(await commit(2, 101), 'another version').to.be.instanceOf(BuildReplaced);
    const later = telling({ topic: space.unique('product-view-events') }, 3, []);
    await adoptByHand({ database: db, who: 'spec' }, later);
    expect(await commit(1, 102), 'the version before').to.be.instanceOf(BuildReplaced);
    expect(await commit(3, 103)).to.include({ kind: 'committed' });
  });
});
