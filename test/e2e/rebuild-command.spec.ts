import { expect } from 'chai';
import type { Database } from '../../src/postgres/database.ts';
import { environmentOf, runCli } from '../support/cli.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { rebuildable } from '../support/rebuild-tools.ts';
import { startTestApp } from '../support/running-app.ts';
import { expectExactModels, openShopLoad, type ShopLoad } from '../support/shop-load.ts';
import { useWorkspace, type Workspace } from '../support/stack.ts';

describe('millrace rebuild', function () {
  this.timeout(300_000);
  const workspace = useWorkspace();
  let space: Workspace;
  let db: Database;
  let load: ShopLoad;
  before(async () => {
    space = workspace();
    db = openTestDatabase(space);
    const { client } = await startTestApp(space);
    load = await openShopLoad(client, 3);
    await load.send(80);
    await expectExactModels(db, load);
  });

  const rebuild = (...args: readonly string[]) => runCli(['rebuild', ...args], environmentOf(space));

  it('says what is wrong with how it is called', async () => {
    for (const args of [
      [],
      ['product-statistic', '--all'],
      ['nothing-like-it'],
      ['--all', '--from', 'memory'],
    ]) {
      const { code, stderr } = await rebuild(...args);
      expect(code, stderr).to.equal(2);
    }
    const { code, stderr } = await rebuild('--rollback', 'product-statistic');
    expect(code).to.equal(1);
    expect(stderr).to.match(/product-statistic has no earlier model to go back to/);
  });

  it('rebuilds every read model, some at once, and tells how it went', async () => {
    const { code, stdout, stderr } = await rebuild('--all', '--concurrency', '2', '--json');
    expect(code, stderr).to.equal(0);
    const reports = JSON.parse(stdout) as Record<string, unknown>[];
    expect(reports.map(({ projection, outcome }) => [projection, outcome])).to.deep.equal(
      rebuildable.map((name) => [name, 'swapped']),
    );
    expect(stderr).to.match(/^product-statistic: .*replaying/m);
    await load.send(10);
    await expectExactModels(db, load);
  });

  it('finds what is wrong in a live model, and mends it when told to', async () => {
    const [productId, counts] = [...load.expected].find(([, { views }]) => views > 0) ?? ['', undefined];
    await db.execute(
      {
        name: 'spec-spoil-model',
        text: 'update product_statistic set view_count = view_count + 7 where product_id = $1',
      },
      [productId],
    );
    const tried = await rebuild('product-statistic', '--dry-run');
    expect(tried.code, tried.stderr).to.equal(3);
    expect(tried.stdout).to.match(/tried, and nothing was changed/);
    expect(tried.stdout).to.match(/1 difference/);
    const views = counts?.views ?? 0;
    expect(tried.stdout).to.match(
      new RegExp(`product_statistic +${productId} +view_count=${views + 7} +view_count=${views}`),
    );
    const stopped = await rebuild('product-statistic');
    expect(stopped.code).to.equal(3);
    expect(stopped.stdout).to.match(/not swapped, the live model is as it was/);
    const accepted = await rebuild('product-statistic', '--accept-differences');
    expect(accepted.code, accepted.stderr).to.equal(0);
    await expectExactModels(db, load);
  });

  it('goes back to the model before', async () => {
    const before = await rebuild('order-view', '--json');
    expect(before.code, before.stderr).to.equal(0);
    await load.send(10);
    await expectExactModels(db, load);
    const { code, stdout, stderr } = await rebuild('--rollback', 'order-view');
    expect(code, stderr).to.equal(0);
    expect(stdout).to.match(
      /order-view: build 2 is live again, after \d+ records? that it had missed; build 3 is kept/,
    );
    await load.send(10);
    await expectExactModels(db, load);
  });
});
