import { expect } from 'chai';
import { type Adapters, openAdapters } from '../../../src/app/adapters.ts';
import { readPipelineStatus } from '../../../src/app/pipeline-status.ts';
import { picture } from '../../../src/cli/status.ts';
import type { SkipReport } from '../../../src/dlq-admin/skip-version.ts';
import { orderId, paymentId, productId, userId } from '../../../src/domain/ids.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { type DeadLetterDesk, openDeadLetterDesk, writeLetters } from '../../support/dead-letters.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { auditRows } from '../../support/outbox-admin.ts';
import { fromJournal, openRebuildTools, projectionOf } from '../../support/rebuild-tools.ts';
import { type Client, startTestApp } from '../../support/running-app.ts';
import { openShopTraffic, type ShopTraffic } from '../../support/shop-traffic.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const forReal = { who: 'cli:ann@desk', dryRun: false };
const dryRun = { ...forReal, dryRun: true };
const order = (id: string) => ({
  orderId: orderId(id),
  userId: userId('ann'),
  items: [{ productId: productId('p'), quantity: 1, unitPriceMinor: 100 }],
  total: { amountMinor: 100, currency: 'EUR' as const },
});

describe('skipping a version that will never come, on real servers', function () {
  this.timeout(120_000);
  const workspace = useWorkspace();
  let db: Database;
  let desk: DeadLetterDesk;
  let adapters: Adapters;
  let traffic: ShopTraffic;
  let client: Client;
  before(async function () {
    this.timeout(120_000);
    const space = workspace();
    db = openTestDatabase(space);
    desk = await openDeadLetterDesk(space, db);
    traffic = await openShopTraffic(space);
    space.closeAtEnd(() => traffic.close());
    adapters = openAdapters(space.config, space.endpoints, silentLog());
    space.closeAtEnd(() => adapters.database.close());
    ({ client } = await startTestApp(space, 'all'));
  });

  const write = (message: ReturnType<ShopTraffic['framed']>) => traffic.writeRaw('order-events', [message]);
  const created = (id: string) =>
    write(traffic.framed({ type: 'OrderCreated', ...order(id) }, { aggregateId: id, version: 1 }));
  const paid = (id: string, version: number) =>
    write(
      traffic.framed(
        { type: 'OrderPaid', ...order(id), paymentId: paymentId('x') },
        { aggregateId: id, version },
      ),
    );
  const waiting = () =>
    db.execute<{ key: string; missing_version: number; records: number }>({
      name: 'spec-waiting-keys',
      text: `select key, missing_version, records from projection_waiting_key where projection = 'order-view' order by key`,
    });
  const statusOf = async (id: string): Promise<unknown> => {
    const [row] = await db.execute<{ status: string }>(
      { name: 'spec-order-status', text: 'select status from order_view where order_id = $1' },
      [id],
    );
    return row?.status;
  };
  const commitsOf = async (): Promise<number> => {
    const [row] = await db.execute<{ commits: number }>({
      name: 'spec-commits',
      text: `select sum(commits)::bigint as commits from projection_task where projection = 'order-view'`,
    });
    return row?.commits ?? 0;
  };
  const skip = (key: string, options = forReal, version?: number): Promise<SkipReport> =>
    desk.admin.skipVersion({ projection: 'order-view', key, version }, options);
  const waitsFor = (key: string, version: number, records = 1) =>
    eventually(async () =>
      expect(await waiting()).to.deep.include({ key, missing_version: version, records }),
    );

  it('lets what is held go on in a projector that runs, and the audit tells who said so', async () => {
    await created('stuck');
    await paid('stuck', 3);
    await waitsFor('stuck', 2);
    const status = picture(
      await readPipelineStatus(adapters, workspace().config, workspace().endpoints),
      new Date(),
    );
    expect(status).to.include('npx millrace dlq skip-version order-view stuck 2');

    const commits = await commitsOf();
    const told = { projection: 'order-view', step: 'order-versions', key: 'stuck', version: 2, next: 4 };
    expect(await skip('stuck', dryRun)).to.deep.equal({ ...told, outcome: 'would-skip', releasedRecords: 1 });
    expect(await skip('stuck', forReal, 3)).to.deep.include({ outcome: 'refused', reason: 'held', next: 2 });
    expect(await skip('stuck', forReal, 1)).to.deep.include({ outcome: 'refused', reason: 'passed' });
    // What is refused fences nobody.
    expect(await commitsOf()).to.equal(commits);
    expect(await skip('stuck', forReal, 2)).to.deep.equal({
      ...told,
      outcome: 'skipped',
      releasedRecords: 1,
    });

    await eventually(async () => expect(await statusOf('stuck')).to.equal('paid'));
    expect(await waiting()).to.deep.equal([]);
    expect((await auditRows(db)).map(({ who, action, target }) => ({ who, action, target }))).to.deep.equal([
      {
        who: forReal.who,
        action: 'dead-letters.skip-version',
        target: {
          projection: 'order-view',
          build: 1,
          step: 'order-versions',
          key: 'stuck',
          version: 2,
          released: 1,
        },
      },
    ]);
    // What comes after all is ignored, and the next one is not waited for in vain.
    await paid('stuck', 2);
    await paid('stuck', 5);
    await waitsFor('stuck', 4);
    expect(await skip('stuck')).to.deep.include({ outcome: 'skipped', version: 4 });
    await eventually(async () => expect(await waiting()).to.deep.equal([]));
  });

  it('refuses what it does not know', async () => {
    expect(await skip('never-seen')).to.deep.equal({
      outcome: 'refused',
      reason: 'unknown-key',
      steps: ['order-versions'],
    });
    const admin = desk.admin.skipVersion({ projection: 'product-cache', key: 'x' }, forReal);
    expect(await admin).to.deep.equal({ outcome: 'refused', reason: 'no-such-step', steps: [] });
  });

  it('is offered when a letter of a key that waits is dropped', async () => {
    await created('dropped');
    await paid('dropped', 3);
    await waitsFor('dropped', 2);
    const [id] = await writeLetters(workspace(), [
      { topic: 'order-events', projection: 'order-view', key: 'dropped', offset: 100 },
    ]);
    const report = await desk.admin.drop({ by: 'ids', places: [desk.place(id ?? '')] }, forReal);
    expect(report).to.deep.include({
      waitingKeys: [
        { projection: 'order-view', step: 'order-versions', key: 'dropped', missingVersion: 2, records: 1 },
      ],
    });
  });

  it('goes over HTTP as well', async () => {
    await created('over-http');
    await paid('over-http', 4);
    await waitsFor('over-http', 2);
    const post = (body: object) => client.post('/admin/dead-letters/skip-version', body);
    const asked = { projection: 'order-view', key: 'over-http' };
    const later = await post({ ...asked, version: 3 });
    expect(later.body).to.include({ outcome: 'skipped', version: 3, next: 2, releasedRecords: 0 });
    const refused = await post({ ...asked, version: 4 });
    expect([refused.status, refused.body.type, refused.body.reason]).to.deep.equal([
      409,
      'urn:millrace:problem:version-not-skipped',
      'held',
    ]);
    const skipped = await post(asked);
    expect(skipped.body).to.include({ outcome: 'skipped', version: 2, next: 5, releasedRecords: 1 });
    await eventually(async () => expect(await statusOf('over-http')).to.equal('paid'));
  });

  it('holds in a build that begins later, which has the same rows', async () => {
    const report = await openRebuildTools(workspace()).rebuild(projectionOf(workspace(), 'order-view'), {
      ...fromJournal,
      from: 'kafka',
      dryRun: true,
    });
    expect(report).to.deep.include({ outcome: 'tried', setAside: { count: 0, shown: [] } });
    expect(report.comparison).to.include({ differences: 0 });
  });
});
