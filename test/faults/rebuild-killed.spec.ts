import type { ChildProcess } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'chai';
import { productId, userId } from '../../src/domain/ids.ts';
import { appendEvents } from '../../src/journal/append-events.ts';
import type { Database } from '../../src/postgres/database.ts';
import { createRandom } from '../../src/streams/testing/topology-test-driver.ts';
import { environmentOf, runCli, startCli } from '../support/cli.ts';
import { eventually } from '../support/eventually.ts';
import { sealed } from '../support/journal.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { startTestApp } from '../support/running-app.ts';
import { useWorkspace, type Workspace } from '../support/stack.ts';

const events = 6000;
const products = 50;
const kills = 10;
/** About what the replay of one small page takes. */
const pageMs = 20;

describe('a rebuild that is killed', function () {
  this.timeout(900_000);
  const workspace = useWorkspace();
  let space: Workspace;
  let db: Database;
  before(async () => {
    space = workspace();
    db = openTestDatabase(space);
    await startTestApp(space);
    await fillJournal();
    await eventually(async () => expect(await viewsCounted()).to.equal(events / 2), { timeoutMs: 180_000 });
    await eventually(async () => expect((await readModel()).likes).to.equal(events / 2), {
      timeoutMs: 180_000,
    });
  });

  const fillJournal = async (): Promise<void> => {
    for (let done = 0; done < events; done += 1000) {
      const page = Array.from({ length: 1000 }, (_, index) => {
        const number = done + index;
        const product = productId(`product-${number % products}`);
        return number % 2 === 0
          ? sealed({ aggregateType: 'ProductView', aggregateId: `view-${number}` }, 1, {
              type: 'ProductViewed',
              productId: product,
              userId: null,
            })
          : sealed({ aggregateType: 'Like', aggregateId: `like-${number}` }, 1, {
              type: 'LikeCreated',
              productId: product,
              userId: userId(`user-${number}`),
            });
      });
      await appendEvents(db, page);
    }
  };

  /** All of the model, and which build it is. */
  const readModel = async () => {
    const [row] = await db.execute<{ content: string; likes: number; build: number }>({
      name: 'spec-whole-model',
      text: `
        select md5(string_agg(format('%s %s %s %s', product_id, like_count, sales_count, view_count), ',' order by product_id))
                 as content,
               coalesce(sum(like_count), 0)::bigint as likes,
               (select version from projection_live where projection = 'product-statistic') as build
        from product_statistic`,
    });
    if (!row) throw new Error('An aggregate answered without a row');
    return row;
  };
  const viewsCounted = async (): Promise<number> => {
    const [row] = await db.execute<{ views: number }>({
      name: 'spec-views-counted',
      text: 'select coalesce(sum(view_count), 0)::bigint as views from product_statistic',
    });
    return row?.views ?? 0;
  };

  const unfinishedBuild = async (): Promise<{ status: string } | undefined> => {
    const [left] = await db.execute<{ status: string }>({
      name: 'spec-unfinished-build',
      text: `select status from projection_build where projection = 'product-statistic' and status in ('building', 'dropping')`,
    });
    return left;
  };
  const untilBuildIsOpen = async (child: ChildProcess, thenMs: number): Promise<void> => {
    const isOver = (): boolean => child.exitCode !== null || child.signalCode !== null;
    await eventually(
      async () => expect(isOver() || (await unfinishedBuild())?.status === 'building').to.equal(true),
      { timeoutMs: 60_000 },
    );
    await pause(thenMs);
  };

  const rebuild = ['rebuild', 'product-statistic', '--json'];
  // Small pages, so that there is a middle to be killed in.
  const environment = (): Record<string, string> => ({
    ...environmentOf(space),
    REBUILD_PAGE_RECORDS_MAX: '50',
  });

  it('at ten random moments changes nothing before its swap, and the next one brings it to its end', async () => {
    const random = createRandom(Date.now() % 1_000_000);
    const whole = await readModel();
    const startedMs = performance.now();
    const tried = await runCli([...rebuild, '--dry-run'], environment());
    expect(tried.code, tried.stderr).to.equal(0);
    const fullMs = performance.now() - startedMs;

    let last = whole;
    let inTheMiddle = 0;
    for (let kill = 0; kill < kills; kill++) {
      const { child, ended, stderr } = startCli(rebuild, environment());
      // At any moment, or as soon as there is a middle: a slow start of the command must not use up all the kills.
      const moment = kill % 2 === 0 ? pause(random() * fullMs) : untilBuildIsOpen(child, random() * pageMs);
      await Promise.race([ended, moment]);
      child.kill('SIGKILL');
      const code = await ended;
      const now = await readModel();
      expect(now.content).to.equal(whole.content);
      if (code !== null) expect(code, stderr()).to.equal(0);
      const left = await unfinishedBuild();
      // Begun and not swapped: the model that was live still is.
      if (left) inTheMiddle++;
      if (left?.status === 'building') expect(now.build).to.equal(last.build);
      last = now;
    }
    expect(inTheMiddle).to.be.greaterThan(0);

    const { code, stdout, stderr } = await runCli(rebuild, environment());
    expect(code, stderr).to.equal(0);
    const [report] = JSON.parse(stdout) as { outcome: string; comparison: { differences: number } }[];
    expect(report?.outcome).to.equal('swapped');
    expect(report?.comparison.differences).to.equal(0);
    const after = await readModel();
    expect(after.content).to.equal(whole.content);
    expect(after.build).to.be.greaterThan(last.build);
  });

  it('leaves no tables or ids of builds that are neither live nor kept', async () => {
    const rows = await db.execute<{ version: number; status: string }>({
      name: 'spec-builds-left',
      text: `
        select version, status from projection_build where projection = 'product-statistic'
        union
        select version, null from projection_scope s where projection = 'product-statistic'
          and not exists (select from projection_build b where b.projection = s.projection and b.version = s.version)`,
    });
    expect(rows.map(({ status }) => status).sort()).to.deep.equal(['live', 'retired']);
    const schemas = await db.execute({
      name: 'spec-build-schemas',
      text: `select from pg_namespace where nspname like 'build_product_statistic_%'`,
    });
    expect(schemas).to.have.lengthOf(1);
  });

  it('is broken off by Ctrl-C without a trace', async () => {
    const before = await readModel();
    const cli = startCli(rebuild, environment());
    await eventually(() => expect(cli.stderr()).to.match(/product-statistic: .*replaying/), {
      timeoutMs: 60_000,
    });
    cli.child.kill('SIGINT');
    expect(await cli.ended).to.equal(1);
    expect(cli.stderr()).to.match(/Broken off; the live model is as it was/);
    const left = await db.execute({
      name: 'spec-left-after-break',
      text: `select from projection_build where projection = 'product-statistic' and status not in ('live', 'retired')`,
    });
    expect(left).to.have.lengthOf(0);
    expect(await readModel()).to.deep.equal(before);
  });
});
