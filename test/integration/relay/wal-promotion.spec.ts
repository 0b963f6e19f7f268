import { expect } from 'chai';
import { createWakeSignal } from '../../../src/relay/wake-signal.ts';
import { createLogOrTableSource } from '../../../src/relay/wal/log-or-table-source.ts';
import { inspectSlot } from '../../../src/relay/wal/slot.ts';
import { OtherTimeline } from '../../../src/relay/wal/stored-position.ts';
import { createRelayAdmin } from '../../../src/relay-admin/relay-admin.ts';
import { eventually } from '../../support/eventually.ts';
import { createMemoryBroker, type MemoryBroker, useRelays } from '../../support/memory-broker.ts';
import type { DatabaseHome } from '../../support/open-database.ts';
import { usePostgresPair } from '../../support/postgres-pair.ts';
import { silentLog } from '../../support/silent-log.ts';
import { judge, pageOf, type SeenRow, useWal } from '../../support/wal.ts';

const timeoutMs = 60_000;

/** PROMOTIONS=10 for the long run. */
const promotions = Number(process.env.PROMOTIONS ?? 3);

describe('WAL source over a promotion of PostgreSQL', function () {
  this.timeout(300_000);
  const closings: (() => Promise<void>)[] = [];
  after(async () => {
    for (const close of closings) await close();
  });
  const pair = usePostgresPair();
  const home = (): DatabaseHome => ({
    endpoints: { databaseUrl: pair().databaseUrl },
    closeAtEnd: (close) => void closings.push(close),
  });
  // First, so that the relays are stopped before their slot is dropped.
  const relays = useRelays(() => wal.db(), silentLog());
  const wal = useWal(home);
  let standbyIsMissing = false;
  beforeEach(async () => {
    if (standbyIsMissing) await pair().addStandby();
    standbyIsMissing = false;
  });

  const promote = async (): Promise<void> => {
    await pair().promote();
    standbyIsMissing = true;
    // The connections of the pool broke with the old server.
    await eventually(() => wal.run('select 1'), { timeoutMs });
  };
  /** Log that moves the positions of whatever comes behind it far ahead. */
  const writeNoise = async (): Promise<void> => {
    await wal.run('create table spec_noise as select generate_series(1, 100000) as n');
    await wal.run('drop table spec_noise');
  };
  const storedPositions = () =>
    wal.run<{ lsn: string }>('select lsn::text as lsn from outbox_wal_position where cursor_until is null');

  for (const { title, noiseBefore, noiseAfter } of [
    { title: 'lies beyond the end of its log', noiseBefore: true, noiseAfter: false },
    { title: 'lies within its log', noiseBefore: false, noiseAfter: true },
  ]) {
    it(`does not store a position of the old primary on the new one, where it ${title}`, async () => {
      const source = await wal.open();
      const lease = await wal.takeLease();
      await source.nextPage(1, lease);
      await pair().catchUp();
      pair().holdReplication();
      if (noiseBefore) await writeNoise();
      await wal.append(['ghost', 1]);
      const page = await pageOf(source, lease, 1);
      await promote();
      if (noiseAfter) await writeNoise();
      const refusal = await source.settle(page, 1, [], lease).catch((error: unknown) => error);
      expect(refusal).to.be.instanceOf(OtherTimeline);
      expect(await storedPositions()).to.deep.equal([]);
    });
  }

  /** A broker that takes its time while the gate is closed. */
  const createGatedBroker = () => {
    const broker = createMemoryBroker();
    let gate = Promise.resolve();
    let waiting = 0;
    const send: MemoryBroker['producer']['send'] = async (batches, ...rest) => {
      waiting += 1;
      await gate;
      waiting -= 1;
      await broker.producer.send(batches, ...rest);
    };
    const gated: MemoryBroker = {
      ...broker,
      producer: {
        ...broker.producer,
        send,
        prepare: (batches) => ({ send: (...rest) => send(batches, ...rest) }),
      },
    };
    return {
      broker: gated,
      isWaiting: () => waiting > 0,
      /** Answers with what opens it again. */
      close: (): (() => void) => {
        const { promise, resolve } = Promise.withResolvers<void>();
        gate = promise;
        return resolve;
      },
    };
  };

  const confluentPrefixBytes = 5;

  /** Of what the broker has, the rows that the server has as well; the others died with an old primary. */
  const rowsIn = async ({ values }: MemoryBroker): Promise<readonly SeenRow[]> => {
    const rows = await wal.run<SeenRow & { payload: Buffer }>(
      `select id, aggregate_id as "aggregateId", aggregate_version as "aggregateVersion", payload from outbox`,
    );
    const byPayload = new Map(rows.map(({ payload, ...row }) => [payload.toString('hex'), row]));
    return values.flatMap((value) => byPayload.get(value?.toString('hex', confluentPrefixBytes) ?? '') ?? []);
  };

  it('publishes everything that the new primary has, in order, however often it happens in mid-page', async () => {
    const admin = createRelayAdmin(wal.db(), {
      stallAfterMs: 5000,
      slotLagBytesMax: 1e9,
      handledRetentionMs: 7 * 86_400_000,
    });
    const { broker, isWaiting, close } = createGatedBroker();
    const wakeSignal = createWakeSignal();
    const source = createLogOrTableSource({
      database: wal.db(),
      databaseUrl: pair().databaseUrl,
      applicationName: 'spec',
      log: silentLog(),
      settings: { ...wal.names(), statusIntervalMs: 100 },
      onChange: wakeSignal.signal,
    });
    relays.startReading('a', broker, { source, wakeSignal });
    const readsLog = () =>
      eventually(async () => expect((await inspectSlot(wal.db(), wal.names().slot)).active).to.equal(true), {
        timeoutMs,
      });
    const isComplete = () =>
      eventually(
        async () =>
          expect(judge(await rowsIn(broker), await wal.committedIds())).to.deep.include({
            lost: 0,
            breaks: [],
          }),
        { timeoutMs },
      );

    for (let round = 1; round <= promotions; round++) {
      await readsLog();
      const [one, other] = [`one-${round}`, `other-${round}`];
      await wal.append([one, 1], [other, 1]);
      await isComplete();
      await pair().catchUp();
      pair().holdReplication();
      // What is under way is not on the new primary, and lies far ahead in the log of the old one, or not.
      if (round % 2 === 0) await writeNoise();
      const open = close();
      await wal.append([one, 2], [other, 2]);
      await eventually(() => expect(isWaiting()).to.equal(true), { timeoutMs });
      await promote();
      await wal.append([other, 2], [one, 2]);
      open();
      await wal.append([one, 3]);
      await isComplete();
      await eventually(async () => expect(await admin.status()).to.have.nested.property('logLoss.slot'), {
        timeoutMs,
      });
      await pair().addStandby();
      standbyIsMissing = false;
      await admin.useWal({ who: 'spec' });
      relays.reconsider();
    }
  });
});
