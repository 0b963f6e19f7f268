import { expect } from 'chai';
import { OperatorError } from '../../../src/operator-error.ts';
import type { Database } from '../../../src/postgres/database.ts';
import {
  createProjectionAdmin,
  type ProjectionAdmin,
} from '../../../src/projection-admin/projection-admin.ts';
import { ProjectionPaused, type StateStore } from '../../../src/streams/ports.ts';
import { findLiveBuild, openLiveBuild } from '../../../src/streams-postgres/builds/live-build.ts';
import { createPostgresStateStore } from '../../../src/streams-postgres/postgres-state-store.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { auditRows } from '../../support/outbox-admin.ts';
import { useWorkspace } from '../../support/stack.ts';
import { at, batch, committed, move, task } from '../../support/state-store-contract/batches.ts';

const who = 'cli:ann@host';
const names = ['first', 'second'];

describe('pausing projections', () => {
  const workspace = useWorkspace();
  let db: Database;
  let admin: ProjectionAdmin;
  let store: StateStore;
  /** Lets a commit stand still in its middle. */
  let inMiddle: () => Promise<void> = async () => {};
  const turnedAway: string[] = [];
  before(async () => {
    db = openTestDatabase(workspace(), 6);
    admin = createProjectionAdmin(db, names);
    store = createPostgresStateStore({
      database: db,
      appendDerived: () => inMiddle(),
      onTurnedAway: ({ name }) => turnedAway.push(name),
    });
    for (const name of names) await openLiveBuild(db, { name, version: 1 });
  });
  afterEach(async () => {
    inMiddle = async () => {};
    for (const { name } of await admin.list()) await admin.resume(name, { who: 'spec', dryRun: false });
  });

  const pauseNow = (projection: string, because: string | null = null) =>
    admin.pause(projection, { who, because, dryRun: false });
  const resumeNow = (projection: string) => admin.resume(projection, { who, dryRun: false });
  let commits = 0;
  /** The next one of the second projection. */
  const nextCommit = () => {
    const before = commits === 0 ? undefined : commits;
    return store.commit(
      batch(
        { name: 'second', version: 1 },
        {
          tasks: [task(0, before)],
          moves: [move(at(0), before, commits + 1)],
          derived: [{ id: 'a', destination: 'd', key: 'k', value: 1, timeMs: 0, causationId: 'b' }],
        },
      ),
    );
  };

  /** A commit that stands still in its middle. */
  const commitHalf = async () => {
    const held = Promise.withResolvers<void>();
    const inside = Promise.withResolvers<void>();
    inMiddle = async () => {
      inside.resolve();
      await held.promise;
    };
    const committing = nextCommit();
    await inside.promise;
    return { committing, goOn: held.resolve };
  };

  it('is stored with who, when and why, and audited once; the first word stands', async () => {
    const audited = (await auditRows(db)).length;
    const report = await pauseNow('first', 'a bad release');
    expect(report).to.include({ projection: 'first', changed: true, dryRun: false, stillCommitting: false });
    expect(report.pause).to.include({ by: who, because: 'a bad release' });
    const again = await admin.pause('first', { who: 'operator:bob', because: 'other', dryRun: false });
    expect(again).to.deep.include({ changed: false, pause: report.pause });
    expect(await admin.list()).to.deep.equal([
      { name: 'first', pause: report.pause },
      { name: 'second', pause: null },
    ]);
    expect((await findLiveBuild(db, 'first'))?.pause).to.deep.equal(report.pause);
    expect((await resumeNow('first')).ended).to.deep.equal(report.pause);
    expect((await resumeNow('first')).ended).to.equal(null);
    expect((await findLiveBuild(db, 'first'))?.pause).to.equal(null);
    expect(
      (await auditRows(db)).slice(audited).map((row) => [row.action, row.who, row.target.projection]),
    ).to.deep.equal([
      ['projections.pause', who, 'first'],
      ['projections.resume', who, 'first'],
    ]);
  });

  it('is only told in a dry run', async () => {
    const audited = await auditRows(db);
    expect(await admin.pause('first', { who, because: null, dryRun: true })).to.deep.equal({
      projection: 'first',
      dryRun: true,
      changed: true,
      pause: null,
      stillCommitting: false,
    });
    expect((await admin.list())[0]?.pause).to.equal(null);
    expect(await auditRows(db)).to.deep.equal(audited);
    const { pause } = await pauseNow('first');
    expect((await admin.resume('first', { who, dryRun: true })).ended).to.deep.equal(pause);
    expect((await admin.list())[0]?.pause).to.deep.equal(pause);
  });

  it('is refused for a name that nobody has; one that was paused and is gone can be resumed', async () => {
    for (const asked of [pauseNow('third'), resumeNow('third')]) {
      const refused = await asked.catch((error: unknown) => error);
      expect(refused).to.be.instanceOf(OperatorError);
      expect((refused as OperatorError).line).to.equal(
        'There is no projection third. It is one of first, second',
      );
    }
    await createProjectionAdmin(db, ['third']).pause('third', { who, because: null, dryRun: false });
    expect((await admin.list()).map(({ name }) => name)).to.deep.equal(['first', 'second', 'third']);
    expect((await resumeNow('third')).ended).to.include({ by: who });
  });

  it('keeps a process that has not heard of it from committing, which is told to look', async () => {
    expect(await nextCommit()).to.deep.equal(committed);
    commits++;
    await pauseNow('second');
    turnedAway.length = 0;
    expect(await nextCommit().catch((error: unknown) => error)).to.be.instanceOf(ProjectionPaused);
    expect(turnedAway).to.deep.equal(['second']);
    await resumeNow('second');
    expect(await nextCommit()).to.deep.equal(committed);
    commits++;
  });

  it('comes back when what was being committed is committed', async () => {
    const { committing, goOn } = await commitHalf();
    let isBack = false;
    const pausing = pauseNow('second').then((report) => {
      isBack = true;
      return report;
    });
    await eventually(async () => expect(await waitsForLock()).to.equal(true));
    expect(isBack).to.equal(false);
    goOn();
    expect(await committing).to.deep.equal(committed);
    commits++;
    expect((await pausing).stillCommitting).to.equal(false);
    expect(await nextCommit().catch((error: unknown) => error)).to.be.instanceOf(ProjectionPaused);
  });

  it('says so when that takes too long', async () => {
    const { committing, goOn } = await commitHalf();
    expect((await pauseNow('second')).stillCommitting).to.equal(true);
    goOn();
    expect(await committing).to.deep.equal(committed);
    commits++;
  });

  it('does not hold what a rebuild fills beside the live model', async () => {
    await db.execute({
      name: 'spec-building',
      text: `insert into projection_build (projection, version, definition_version, status, source, phase, program)
             values ('second', 2, 1, 'building', 'journal', 'replay', 'spec')`,
    });
    await pauseNow('second');
    const filling = batch(
      { name: 'second', version: 2 },
      { tasks: [task(0, undefined)], moves: [move(at(0), undefined, 1)] },
    );
    expect(await store.commit(filling)).to.deep.equal(committed);
  });

  const waitsForLock = async (): Promise<boolean> => {
    const [row] = await db.execute<{ waits: boolean }>({
      name: 'spec-waits-for-lock',
      text: `select exists (select from pg_stat_activity where datname = current_database()
               and wait_event_type = 'Lock' and query like '%projection_build%for update%') as waits`,
    });
    return row?.waits ?? false;
  };
});
