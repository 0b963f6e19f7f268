import { expect } from 'chai';
import { OperatorError } from '../../../src/operator-error.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { topicsOf } from '../../../src/streams/topology.ts';
import { recreateTopics } from '../../support/broken-logs.ts';
import { loseRecords } from '../../support/lose-records.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { fromJournal, openRebuildTools, projectionOf } from '../../support/rebuild-tools.ts';
import { startTestApp } from '../../support/running-app.ts';
import { expectExactModels, openShopLoad, type ShopLoad } from '../../support/shop-load.ts';
import { useWorkspace, type Workspace } from '../../support/stack.ts';

describe('a rebuild, and topics that lose records', function () {
  this.timeout(180_000);
  const workspace = useWorkspace({
    SCHEMA_REGISTRY_REQUEST_TIMEOUT_MS: '60000',
    STREAMS_RETRY_DELAY_MS: '100',
  });
  let space: Workspace;
  let db: Database;
  let load: ShopLoad;
  before(async () => {
    space = workspace();
    db = openTestDatabase(space);
    const { client } = await startTestApp(space);
    load = await openShopLoad(client);
    await load.send(40);
  });

  const statistic = () => projectionOf(space, 'product-statistic');

  /** A rebuild that dies when the model is filled and everything else is still to be read from the topics. */
  const dieInCatchUp = async (): Promise<void> => {
    const tools = openRebuildTools(space, {
      onProgress: ({ doing }) => {
        if (doing === 'comparing') throw new Error('the process is gone');
      },
    });
    const died = await tools.rebuild(statistic(), fromJournal).catch((error: Error) => error.message);
    expect(died).to.equal('the process is gone');
  };

  it('begins anew a build that was broken off, when retention has taken what it had still to read', async () => {
    await expectExactModels(db, load);
    await dieInCatchUp();
    await load.send(40);
    await expectExactModels(db, load);
    expect(await loseRecords(space.endpoints.kafkaBrokers, topicsOf(statistic()))).to.be.greaterThan(40);

    const report = await openRebuildTools(space).rebuild(statistic(), fromJournal);
    expect(report.comparison?.shown).to.deep.equal([]);
    expect(report).to.include({ outcome: 'swapped', isResumed: false });
    await load.send(10);
    await expectExactModels(db, load);
  });

  it('goes on with one for which the topics have everything', async () => {
    await dieInCatchUp();
    await load.send(10);
    const report = await openRebuildTools(space).rebuild(statistic(), fromJournal);
    expect(report).to.include({ outcome: 'swapped', isResumed: true });
    expect(report.comparison?.differences).to.equal(0);
    await expectExactModels(db, load);
  });

  const recreate = (): Promise<void> =>
    recreateTopics(space.endpoints.kafkaBrokers, {
      topics: topicsOf(statistic()),
      partitions: space.config.topics.partitions,
    });

  it('begins anew a build whose topics were deleted and made anew, however far they have grown', async () => {
    await expectExactModels(db, load);
    await dieInCatchUp();
    await recreate();
    await load.send(60);
    await expectExactModels(db, load);
    const report = await openRebuildTools(space).rebuild(statistic(), fromJournal);
    expect(report.comparison?.shown).to.deep.equal([]);
    expect(report).to.include({ outcome: 'swapped', isResumed: false });
    await expectExactModels(db, load);
  });

  it('does not go back to a model that was read from topics that are gone', async () => {
    await recreate();
    await load.send(20);
    await expectExactModels(db, load);
    const refused = await openRebuildTools(space)
      .rollBack(statistic())
      .catch((error: unknown) => error);
    expect(refused).to.be.instanceOf(OperatorError);
    expect((refused as OperatorError).message).to.match(/cannot catch up: .*made anew/);
    await load.send(10);
    await expectExactModels(db, load);
  });
});
