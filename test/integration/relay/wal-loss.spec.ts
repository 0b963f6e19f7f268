import { expect } from 'chai';
import pg from 'pg';
import { OperatorError } from '../../../src/operator-error.ts';
import type { Relay } from '../../../src/relay/loop.ts';
import { createWakeSignal } from '../../../src/relay/wake-signal.ts';
import { createLogOrTableSource } from '../../../src/relay/wal/log-or-table-source.ts';
import { dropSlot, expelReader, inspectSlot } from '../../../src/relay/wal/slot.ts';
import { createRelayAdmin, type RelayAdmin } from '../../../src/relay-admin/relay-admin.ts';
import { eventually } from '../../support/eventually.ts';
import { createMemoryBroker, type MemoryBroker, useRelays } from '../../support/memory-broker.ts';
import { recordingLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';
import { useWal } from '../../support/wal.ts';

const who = 'cli:ann@host';
const timeoutMs = 60_000;

describe('a relay of the write-ahead log that loses its ground', function () {
  this.timeout(120_000);
  const workspace = useWorkspace();
  const { log, lines } = recordingLog();
  // First, so that the relays are stopped before their slot is dropped.
  const relays = useRelays(() => wal.db(), log);
  const wal = useWal(workspace);
  let admin: RelayAdmin;
  before(() => {
    admin = createRelayAdmin(wal.db(), {
      stallAfterMs: 5000,
      slotLagBytesMax: 1e9,
      handledRetentionMs: 7 * 86_400_000,
    });
  });
  beforeEach(() => {
    lines.length = 0;
  });

  const start = (holder: string): { broker: MemoryBroker; relay: Relay } => {
    const broker = createMemoryBroker();
    const wakeSignal = createWakeSignal();
    const source = createLogOrTableSource({
      database: wal.db(),
      databaseUrl: workspace().endpoints.databaseUrl,
      applicationName: holder,
      log,
      settings: { ...wal.names(), statusIntervalMs: 100 },
      onChange: wakeSignal.signal,
    });
    return { broker, relay: relays.startReading(holder, broker, { source, wakeSignal }) };
  };
  const arrived = (broker: MemoryBroker, ...keys: readonly string[]) =>
    eventually(() => expect(broker.keys).to.include.members(keys), { timeoutMs });
  const readsLog = () =>
    eventually(async () => expect((await inspectSlot(wal.db(), wal.names().slot)).active).to.equal(true), {
      timeoutMs,
    });
  const loseSlot = () =>
    eventually(async () => {
      await expelReader(wal.db(), wal.names().slot);
      await dropSlot(wal.db(), wal.names().slot);
    });
  const warnings = () => lines.filter(({ level }) => level >= 40).map(({ msg }) => msg);
  const reportsOfLoss = () => warnings().filter((line) => line.includes('by snapshots instead'));

  it('reads by snapshots when the slot is lost, says so once, and returns to the log when told', async () => {
    const { broker } = start('a');
    await wal.append(['one', 1]);
    await arrived(broker, 'one');
    await readsLog();
    await loseSlot();
    await wal.append(['two', 1]);
    await arrived(broker, 'two');
    await wal.append(['three', 1]);
    await arrived(broker, 'three');

    expect(reportsOfLoss()).to.have.length(1);
    expect(reportsOfLoss()[0]).to.match(/slot \w+ is gone.*Nothing is lost.*relay use-wal/);
    const { logLoss, slot } = await admin.status();
    expect(logLoss).to.include({ slot: wal.names().slot });
    expect(slot).to.equal(null);

    const { ended } = await admin.useWal({ who });
    expect(ended).to.deep.equal(logLoss);
    relays.reconsider();
    await readsLog();
    await wal.append(['four', 1]);
    await arrived(broker, 'four');
    expect((await admin.status()).logLoss).to.equal(null);
    expect(await admin.useWal({ who })).to.deep.equal({ ended: null });
  });

  it('stays with snapshots when another relay takes over', async () => {
    const first = start('a');
    await wal.append(['one', 1]);
    await arrived(first.broker, 'one');
    await readsLog();
    await loseSlot();
    await wal.append(['two', 1]);
    await arrived(first.broker, 'two');
    await first.relay.stop();
    const second = start('b');
    await wal.append(['three', 1]);
    await arrived(second.broker, 'three');
    expect(second.broker.keys).not.to.include('one');
    expect(reportsOfLoss(), 'one from each').to.have.length(2);
    expect((await inspectSlot(wal.db(), wal.names().slot)).walStatus).to.equal('missing');
  });

  it('begins anew by itself when a resync has removed its position', async () => {
    const { broker } = start('a');
    await wal.append(['one', 1], ['two', 1]);
    await arrived(broker, 'one', 'two');
    await readsLog();
    const [first] = await wal.committedIds();
    await admin.resync(first ?? 1, { who, dryRun: false });
    relays.reconsider();
    await eventually(() => expect(broker.keys.slice(0, 4)).to.deep.equal(['one', 'two', 'one', 'two']), {
      timeoutMs,
    });
    await readsLog();
    await wal.append(['three', 1]);
    await arrived(broker, 'three');
    expect(reportsOfLoss()).to.deep.equal([]);
    expect((await admin.status()).logLoss).to.equal(null);
  });

  it('does not trust a slot that came along with a promotion', async () => {
    const { broker } = start('a');
    await wal.append(['one', 1]);
    await arrived(broker, 'one');
    await readsLog();
    await wal.append(['two', 1]);
    await arrived(broker, 'two');
    // As if the server had been promoted, and the slot brought along by it.
    await wal.run('update outbox_wal_position set timeline = timeline - 1');
    await expelReader(wal.db(), wal.names().slot);
    await wal.append(['three', 1]);
    await arrived(broker, 'three');
    expect(reportsOfLoss()[0]).to.match(/was promoted.*may have confirmed more/);
  });

  it('leaves a slot of the same name alone that belongs to another database, and says whose it is', async () => {
    const { slot } = wal.names();
    const url = new URL(workspace().endpoints.databaseUrl);
    url.pathname = '/postgres';
    const other = new pg.Client({ connectionString: url.href });
    await other.connect();
    try {
      await other.query('select pg_create_logical_replication_slot($1, $2)', [slot, 'pgoutput']);
      expect((await inspectSlot(wal.db(), slot)).walStatus).to.equal('missing');
      const refusal = await wal.open().catch((error: unknown) => error);
      expect(refusal).to.be.instanceOf(OperatorError);
      expect((refusal as OperatorError).line).to.match(/belongs to the database postgres.*TOPIC_PREFIX/);
      await expelReader(wal.db(), slot);
      await dropSlot(wal.db(), slot);
      const { rows } = await other.query('select from pg_replication_slots where slot_name = $1', [slot]);
      expect(rows).to.have.length(1);

      const { broker } = start('a');
      await wal.append(['one', 1]);
      await arrived(broker, 'one');
      expect(warnings().join()).to.match(/cannot read the write-ahead log now/);
    } finally {
      await other.query('select pg_drop_replication_slot($1)', [slot]);
      await other.end();
    }
  });
});
