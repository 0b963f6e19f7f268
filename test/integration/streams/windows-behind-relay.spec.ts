import { expect } from 'chai';
import { openAdapters } from '../../../src/app/adapters.ts';
import { startProjector } from '../../../src/app/start-projector.ts';
import { productId } from '../../../src/domain/ids.ts';
import { appendEvents } from '../../../src/journal/append-events.ts';
import { createMetricRegistry } from '../../../src/metrics/metric-registry.ts';
import { measureStreams } from '../../../src/metrics/streams-metrics.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { type EnvelopeStream, ofEvent } from '../../../src/projections/of-event.ts';
import { createRelayAdmin, type RelayAdmin } from '../../../src/relay-admin/relay-admin.ts';
import { topology } from '../../../src/streams/topology.ts';
import { tickEveryMs } from '../../../src/streams/turn.ts';
import { tumbling } from '../../../src/streams/windows.ts';
import { eventually } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { startTestApp } from '../../support/running-app.ts';
import { openShopTraffic, type ShopTraffic } from '../../support/shop-traffic.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace, type Workspace } from '../../support/stack.ts';

const patience = { timeoutMs: 60_000 };
const windows = tumbling({ sizeMs: 500, graceMs: 500 });

describe('windows that close by the wall clock', function () {
  this.timeout(180_000);
  const workspace = useWorkspace();
  let space: Workspace;
  let db: Database;
  let relay: RelayAdmin;
  let traffic: ShopTraffic;
  const closed: { readonly key: string; readonly value: number }[] = [];

  before(async () => {
    space = workspace();
    db = openTestDatabase(space, 3);
    relay = createRelayAdmin(db, { ...space.config.relay, ...space.config.streams });
    traffic = await openShopTraffic(space);
    space.closeAtEnd(() => traffic.close());
    await startTestApp(space, 'relay');
    const adapters = openAdapters(space.config, space.endpoints, silentLog());
    const views: EnvelopeStream = { topic: space.unique('product-view-events') };
    const projector = await startProjector({
      adapters,
      cache: { forget: async () => {} },
      config: space.config,
      observer: measureStreams(createMetricRegistry()),
      databaseUrl: space.endpoints.databaseUrl,
      log: silentLog(),
      topologies: [
        topology(
          {
            name: 'views-by-window',
            version: 1,
            onFailure: { retries: 3, backoffMs: 100, afterRetries: 'skip-record' },
          },
          (t) => {
            t.stream(views)
              .filter(ofEvent('ProductViewed'))
              .groupByKey()
              .windowedBy(windows)
              .aggregate('views', { initial: 0, fold: (views: number) => views + 1 })
              .peek(({ key, value }) => closed.push({ key, value }));
          },
        ),
      ],
    });
    space.closeAtEnd(async () => {
      await projector.stop();
      await adapters.database.close();
    });
  });

  const records = async (): Promise<{ readonly applied: number; readonly late: number }> => {
    const [row] = await db.execute<{ applied: number; late: number }>({
      name: 'spec-window-records',
      text: `select coalesce(sum(next_offset), 0)::int as applied, coalesce(sum(late_records), 0)::int as late
             from projection_checkpoint where projection = 'views-by-window'`,
    });
    if (!row) throw new Error('A sum is always one row');
    return row;
  };

  it('wait for what a paused relay has not sent: nothing of it comes too late', async () => {
    // Over by the wall clock for long: only what is still to come keeps the window open.
    const occurredAt = new Date(Date.now() - 60_000);
    await relay.pause({ who: 'spec', because: 'a long repair' });
    await eventually(async () => expect(await relay.relaying()).to.deep.equal([]), patience);
    await appendEvents(db, [viewOf('seen', 1, occurredAt)]);
    const view = { type: 'ProductViewed', productId: productId('seen'), userId: null } as const;
    await traffic.writeRaw('product-view-events', [
      traffic.framed(view, { aggregateId: 'seen', time: occurredAt.getTime() }),
    ]);
    await eventually(async () => expect(await records()).to.include({ applied: 1 }), patience);
    const appliedMs = Date.now();
    await eventually(() => expect(Date.now()).to.be.greaterThan(appliedMs + 4 * tickEveryMs), patience);
    expect(closed).to.deep.equal([]);
    await relay.resume({ who: 'spec' });
    await eventually(() => expect(closed).to.deep.equal([{ key: 'seen', value: 2 }]), patience);
    expect(await records()).to.deep.equal({ applied: 2, late: 0 });
  });
});
