import { expect } from 'chai';
import { Kafka, logLevel } from 'kafkajs';
import type { Database } from '../../src/postgres/database.ts';
import { type CliProcess, environmentOf, readyUrl, startCli } from '../support/cli.ts';
import { eventually } from '../support/eventually.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { appliedBy, comparable, openShopTraffic, type ShopTraffic } from '../support/shop-traffic.ts';
import { useWorkspace, type Workspace } from '../support/stack.ts';

const patience = { timeoutMs: 150_000 };

describe('projectors under fire', function () {
  this.timeout(300_000);
  const workspace = useWorkspace();
  let space: Workspace;
  let db: Database;
  let traffic: ShopTraffic;
  const projectors: CliProcess[] = [];
  before(async () => {
    space = workspace();
    db = openTestDatabase(space, 3);
    traffic = await openShopTraffic(space);
    space.closeAtEnd(() => traffic.close());
  });
  afterEach(async () => {
    for (const projector of projectors.splice(0)) await end(projector);
  });

  const startProjector = async (): Promise<CliProcess> => {
    const projector = startCli(['up', '--role', 'projector'], {
      ...environmentOf(space),
      // A member that is gone is missed soon, and batches are small enough to be interrupted.
      STREAMS_SESSION_TIMEOUT_MS: '6000',
      STREAMS_HEARTBEAT_INTERVAL_MS: '500',
      STREAMS_POLL_RECORDS_MAX: '50',
      STREAMS_RETRY_DELAY_MS: '100',
      DATABASE_IDLE_TRANSACTION_TIMEOUT_MS: '3000',
    });
    projectors.push(projector);
    await readyUrl(projector, 120_000);
    return projector;
  };

  const end = async ({ child, ended }: CliProcess): Promise<void> => {
    child.kill('SIGCONT');
    child.kill('SIGKILL');
    await ended;
  };

  /** Whatever happened: every event counted, and counted once. */
  const isExact = async (): Promise<void> => {
    await eventually(async () => {
      const { found, expected } = await comparable(db, traffic);
      expect(found).to.deep.equal(expected);
    }, patience);
    // And it stays so when everything has been read.
    await eventually(async () => expect(await appliedBy(db)).to.be.at.least(traffic.written), patience);
    const { found, expected } = await comparable(db, traffic);
    expect(found).to.deep.equal(expected);
  };

  /** Writes, and gives a wait for some of it to be applied: the rest may be under way then. */
  const write = async (count: number): Promise<(records: number) => Promise<void>> => {
    const before = await appliedBy(db);
    await traffic.write(count);
    return async (records) => {
      await eventually(async () => expect(await appliedBy(db)).to.be.at.least(before + records), patience);
    };
  };

  /** Runs something while no projector can change a table: each is held in the middle of its batch. */
  const withTableHeld = (table: string, routine: () => Promise<void>): Promise<void> =>
    db.transaction(async (tx) => {
      await tx.execute({ name: 'spec-hold-table', text: `lock table ${table} in share row exclusive mode` });
      await routine();
    });

  const oneIsHeldUp = async (): Promise<void> => {
    const [row] = await db.execute<{ held: number }>({
      name: 'spec-held-up',
      text: `select count(*) as held from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock'`,
    });
    expect(row?.held).to.be.at.least(1);
  };

  it('count exactly when they are killed again and again', async () => {
    for (let turn = 0; turn < 4; turn++) {
      const untilApplied = await write(800);
      const projector = await startProjector();
      await untilApplied(100);
      await end(projector);
    }
    await startProjector();
    await isExact();
  });

  it('count exactly when one dies after its state is committed and before Kafka has its offsets', async () => {
    const admin = new Kafka({
      brokers: [...space.endpoints.kafkaBrokers],
      connectionTimeout: 30_000,
      logLevel: logLevel.NOTHING,
    }).admin();
    const groupId = space.unique('millrace-product-statistic');
    await admin.connect();
    const committed = async (): Promise<number> => {
      const topics = await admin.fetchOffsets({ groupId });
      return topics
        .flatMap(({ partitions }) => partitions)
        .reduce((sum, { offset }) => sum + Math.max(0, Number(offset)), 0);
    };
    try {
      const untilApplied = await write(3000);
      const projector = await startProjector();
      await untilApplied(500);
      await end(projector);
      // Offsets follow the checkpoints after a while: this one never got to it for its last batches.
      expect(await committed()).to.be.lessThan(await appliedBy(db));
    } finally {
      await admin.disconnect();
    }
    await startProjector();
    await isExact();
  });

  it('share the partitions, and take over those of one that is killed', async () => {
    const [first] = await Promise.all([startProjector(), startProjector(), startProjector()]);
    const untilApplied = await write(3000);
    await untilApplied(300);
    if (first) await end(first);
    await isExact();
  });

  it('count exactly when others join in the middle of a batch and leave again', async () => {
    const untilApplied = await write(3000);
    await startProjector();
    await untilApplied(100);
    const second = await startProjector();
    const untilMoreApplied = await write(1500);
    await untilMoreApplied(100);
    second.child.kill('SIGTERM');
    await second.ended;
    await traffic.write(500);
    await isExact();
  });

  it('count exactly when one sleeps, loses its partitions and wakes up in the middle of its batch', async () => {
    const untilApplied = await write(4000);
    let sleeper: CliProcess | undefined;
    await withTableHeld('product_statistic', async () => {
      sleeper = await startProjector();
      await eventually(oneIsHeldUp, patience);
      sleeper.child.kill('SIGSTOP');
    });
    // The other has the partitions once the group has missed the sleeper, and the rows once PostgreSQL has.
    await startProjector();
    await untilApplied(1000);
    sleeper?.child.kill('SIGCONT');
    await traffic.write(500);
    await isExact();
    expect(sleeper?.child.exitCode, sleeper?.stderr()).to.equal(null);
  });
});
