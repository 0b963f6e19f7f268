import { expect } from 'chai';
import { OperatorError } from '../../../src/operator-error.ts';
import type { Database } from '../../../src/postgres/database.ts';
import type { RebuildProgress } from '../../../src/rebuild/rebuild-ports.ts';
import { findLiveBuild } from '../../../src/streams-postgres/builds/live-build.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { fromJournal, openRebuildTools, projectionOf } from '../../support/rebuild-tools.ts';
import { type Client, startTestApp } from '../../support/running-app.ts';
import { expectExactModels, openShopLoad, type ShopLoad } from '../../support/shop-load.ts';
import { useWorkspace, type Workspace } from '../../support/stack.ts';

const name = 'product-statistic';
const patience = { timeoutMs: 120_000 };

describe('a rebuild of a projection that is paused', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({ STREAMS_RETRY_DELAY_MS: '100', REBUILD_PATIENCE_MS: '6000' });
  let space: Workspace;
  let db: Database;
  let client: Client;
  let load: ShopLoad;
  before(async () => {
    space = workspace();
    db = openTestDatabase(space);
    ({ client } = await startTestApp(space));
    load = await openShopLoad(client);
    await load.send(60);
    await expectExactModels(db, load);
  });
  afterEach(() => tell('resume'));

  const tell = async (what: 'pause' | 'resume'): Promise<void> => {
    const { status, body } = await client.post(`/admin/projections/${name}/${what}`);
    expect(status, JSON.stringify(body)).to.equal(200);
  };
  const liveVersion = async (): Promise<number | undefined> => (await findLiveBuild(db, name))?.version;
  /** Sends commands, and waits until another projection has what this one has not. */
  const fallBehind = async (): Promise<void> => {
    await load.send(20);
    await eventually(async () => {
      const [row] = await db.execute<{ placed: number }>({
        name: 'spec-orders-placed',
        text: 'select count(*) as placed from order_view',
      });
      expect(row?.placed).to.equal(load.orders.placed);
    }, patience);
  };
  const refusalOf = async (work: Promise<unknown>): Promise<string> => {
    const refused = await work.catch((error: unknown) => error);
    expect(refused).to.be.instanceOf(OperatorError);
    return (refused as OperatorError).line;
  };

  it('is refused from the journal before it has begun, and says what to do', async () => {
    await tell('pause');
    const before = await liveVersion();
    const line = await refusalOf(openRebuildTools(space).rebuild(projectionOf(space, name), fromJournal));
    expect(line)
      .to.match(/^product-statistic is paused by operator.* since /)
      .and.to.contain('npx millrace topologies resume product-statistic')
      .and.to.contain('--from kafka');
    expect(await liveVersion()).to.equal(before);
  });

  it('says so when the pause comes while it waits for the live model, and goes on from there the next time', async () => {
    const topology = projectionOf(space, name);
    const told = new Set<string>();
    let isPausing: Promise<void> | undefined;
    const onProgress = ({ doing, reason }: RebuildProgress): void => {
      if (reason) told.add(reason);
      if (doing === 'replaying') isPausing ??= tell('pause');
    };
    // The relay is held so that the replay has what Kafka has not: the live model must be waited for.
    expect((await client.post('/admin/relay/pause')).status).to.equal(200);
    await load.send(10);
    const rebuilding = openRebuildTools(space, { onProgress }).rebuild(topology, fromJournal);
    rebuilding.catch(() => undefined);
    await eventually(() => expect(isPausing).not.to.equal(undefined), patience);
    await isPausing;
    expect((await client.post('/admin/relay/resume')).status).to.equal(200);
    const line = await refusalOf(rebuilding);
    expect(line)
      .to.match(
        /the live projection is paused by operator.* since .* and \d+ records? behind, and nothing has moved/,
      )
      .and.to.contain('npx millrace topologies resume product-statistic');
    expect([...told].some((reason) => reason.startsWith('the live projection is paused by'))).to.equal(true);
    await tell('resume');
    const report = await openRebuildTools(space).rebuild(topology, fromJournal);
    expect(report).to.include({ outcome: 'swapped', isResumed: true });
    await expectExactModels(db, load);
  });

  it('from Kafka is compared where the live model stands; what takes its place is paused as well', async () => {
    await tell('pause');
    await fallBehind();
    const before = await liveVersion();
    const report = await openRebuildTools(space).rebuild(projectionOf(space, name), {
      ...fromJournal,
      from: 'kafka',
    });
    expect(report.comparison?.differences).to.equal(0);
    expect(report).to.include({ outcome: 'swapped', replaces: before });
    const live = await findLiveBuild(db, name);
    expect(live?.version).to.equal(report.build);
    expect(live?.pause).not.to.equal(null);
    await tell('resume');
    await expectExactModels(db, load);
  });

  it('can be rolled back, and what comes back stays paused until it is resumed', async () => {
    await tell('pause');
    await fallBehind();
    const report = await openRebuildTools(space).rollBack(projectionOf(space, name));
    expect(report.outcome).to.equal('rolled-back');
    expect((await findLiveBuild(db, name))?.pause).not.to.equal(null);
    await load.send(10);
    await tell('resume');
    await expectExactModels(db, load);
  });
});
