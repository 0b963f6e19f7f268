import { expect } from 'chai';
import { acquireLease } from '../../../src/relay/lease.ts';
import { tellThatRelayLives } from '../../../src/relay/live-relays.ts';
import { mainRelayLease } from '../../../src/relay/shard.ts';
import { readShardFigures } from '../../../src/relay/shard-figures.ts';
import { explainStall } from '../../../src/relay/stall/explain-stall.ts';
import { readStallFacts } from '../../../src/relay/stall/read-stall-facts.ts';
import { dropSlot } from '../../../src/relay/wal/slot.ts';
import { eventually } from '../../support/eventually.ts';
import { useWorkspace } from '../../support/stack.ts';
import { readUntil, useWal } from '../../support/wal.ts';

describe('why events are late that are read from the log', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();
  const wal = useWal(workspace);
  const settings = { stallAfterMs: 300, slotLagBytesMax: 1e12 };

  const explain = async (changed: Partial<typeof settings> = {}) => {
    const all = { ...settings, ...changed };
    return explainStall(await readStallFacts(wal.db(), all), all);
  };
  const holdLease = async () => {
    await tellThatRelayLives(wal.db(), { name: 'a', aliveMs: 60_000 });
    const lease = await acquireLease(wal.db(), { name: mainRelayLease, holder: 'a', holdMs: 60_000 });
    if (!lease) throw new Error('Nobody else wants the lease');
    return lease;
  };
  const pending = async () => (await readShardFigures(wal.db()))[0]?.pending;

  it('does not speak of what has been published, once the log is quiet', async () => {
    const source = await wal.open();
    const lease = await holdLease();
    await wal.append(['a', 1], ['b', 1]);
    await wal.append(['a', 2]);
    await readUntil(source, lease, { isOver: (seen) => seen.length === 3 });
    await eventually(async () => expect(await pending()).to.equal(0));
    expect(await explain()).to.deep.equal([]);
    await wal.append(['a', 3]);
    expect(await pending()).to.be.greaterThan(0);
  });

  it('is a slot that nobody reads from, or that is gone', async () => {
    const source = await wal.open();
    const lease = await holdLease();
    await wal.append(['a', 1]);
    await readUntil(source, lease, { isOver: (seen) => seen.length === 1 });
    await source.close();
    await wal.append(['a', 2]);
    const { slot } = wal.names();
    await eventually(async () => {
      const [reason, ...others] = await explain();
      expect(others).to.deep.equal([]);
      expect(reason).to.include({ kind: 'slot-inactive', slot });
    });
    expect(await explain({ slotLagBytesMax: 1 })).to.have.nested.property('[1].kind', 'slot-lagging');
    await dropSlot(wal.db(), slot);
    expect(await explain()).to.deep.equal([{ kind: 'slot-lost', slot }]);
  });

  it('is a transaction that was open before a new slot could begin', async () => {
    await wal.append(['a', 1]);
    let opening: ReturnType<typeof wal.open> | undefined;
    await wal.db().transaction(async (tx) => {
      const [row] = await tx.execute<{ pid: number }>({
        name: 'spec-open-pid',
        text: 'select pg_backend_pid() as pid, pg_current_xact_id()',
      });
      opening = wal.open();
      await eventually(async () => {
        const blocking = (await explain()).filter(({ kind }) => kind === 'long-transaction');
        expect(blocking).to.have.length(1);
        expect(blocking[0]).to.have.nested.property('effect', 'slot-waits');
        expect(blocking[0]).to.have.nested.property('session.pid', row?.pid);
      });
    });
    await opening;
  });
});
