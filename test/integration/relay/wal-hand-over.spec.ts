import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import pg from 'pg';
import { OperatorError } from '../../../src/operator-error.ts';
import { createCursorSource } from '../../../src/relay/cursor-source.ts';
import { type Lease, LeaseMoved } from '../../../src/relay/lease.ts';
import type { OutboxSource } from '../../../src/relay/outbox-source.ts';
import { handOverToCursor } from '../../../src/relay/wal/hand-over.ts';
import { dropSlot, inspectSlot } from '../../../src/relay/wal/slot.ts';
import { eventually } from '../../support/eventually.ts';
import { useWorkspace } from '../../support/stack.ts';
import { judge, labels, pageOf, readUntil, type SeenRow, useWal, writeStorm } from '../../support/wal.ts';

const rowsMax = 7;

/** The rows of the next page, passed for good; none when there is nothing more. A page of a cursor may be empty. */
const passPage = async (source: OutboxSource, lease: Lease): Promise<readonly SeenRow[]> => {
  for (;;) {
    const page = await source.nextPage(rowsMax, lease);
    if (!page) return [];
    const { rows } = page;
    if (!(await source.settle(page, rows.length, [], lease))) throw new Error('The lease has moved');
    if (rows.length > 0) return rows;
  }
};

describe('hand-over between cursor and WAL', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();
  const wal = useWal(workspace);

  const toCursor = (lease: Lease) => handOverToCursor(wal.db(), { slot: wal.names().slot, lease });

  const readFrom = async (
    source: () => OutboxSource,
    lease: Lease,
    isOver: (found: readonly SeenRow[]) => boolean,
  ): Promise<readonly SeenRow[]> => {
    const seen: SeenRow[] = [];
    for (;;) {
      const rows = await passPage(source(), lease);
      seen.push(...rows);
      if (isOver(rows)) return seen;
      if (rows.length === 0) await sleep(2);
    }
  };
  /** Reads through the cursor for a while, or until there is nothing more. It remembers nothing from step to step. */
  const readByCursor = (lease: Lease, isOver: (found: readonly SeenRow[]) => boolean) =>
    readFrom(() => createCursorSource(wal.db()), lease, isOver);

  /** Not before something was found: on a busy machine the writers may be slow. */
  const inAMoment = (): ((found: readonly SeenRow[]) => boolean) => {
    const end = Date.now() + 150;
    let isAny = false;
    return (found) => {
      isAny ||= found.length > 0;
      return isAny && Date.now() > end;
    };
  };

  it('goes to and fro under load without losing a row or an order', async () => {
    const lease = await wal.takeLease();
    const seen: SeenRow[] = [];
    let isOver = false;
    const storm = writeStorm(wal.db(), { writers: 6, isOver: () => isOver });
    try {
      for (let round = 1; round <= 4; round++) {
        seen.push(...(await readByCursor(lease, inAMoment())));
        const source = await wal.open();
        seen.push(...(await readFrom(() => source, lease, inAMoment())));
        // The last page was published and the relay died before it was settled: it may come again, it may not be missing.
        const page = await source.nextPage(5, lease);
        seen.push(...(page?.rows ?? []));
        await source.close();
        expect(await toCursor(lease)).not.to.equal(undefined);
      }
    } finally {
      isOver = true;
      await storm;
    }
    seen.push(...(await readByCursor(lease, (found) => found.length === 0)));
    const committed = await wal.committedIds();
    const verdict = judge(seen, committed);
    expect(verdict).to.deep.include({ lost: 0, breaks: [] });
    expect(verdict.repeated).to.be.lessThan(committed.length);
  });

  it('leaves nothing behind of shards that were not equally far when they were brought together', async () => {
    const lease = await wal.takeLease();
    await wal.append(['a', 1], ['b', 1], ['c', 1]);
    // What a reshard stores when one shard has passed its rows of a delta up to an id, and another one none of them.
    await wal.run(`
      insert into outbox_cursor (from_snapshot, to_snapshot, last_id, lease_token, system_identifier)
      select '1:1:', '1:1:', max(id), 0, system_identifier from outbox, pg_control_system() group by system_identifier`);
    const source = await wal.open();
    const seen = await readUntil(source, lease, { isOver: (rows) => rows.length >= 3 });
    expect(labels(seen)).to.include.members(['a/1', 'b/1', 'c/1']);
  });

  it('repeats nothing on the way to WAL', async () => {
    const lease = await wal.takeLease();
    const seen: SeenRow[] = [];
    let storming = true;
    const storm = writeStorm(wal.db(), { writers: 6, turns: 120 }).finally(() => {
      storming = false;
    });
    seen.push(...(await readByCursor(lease, inAMoment())));
    const source = await wal.open();
    expect(storming, 'the storm goes on').to.equal(true);
    seen.push(...(await readUntil(source, lease, { isOver: () => !storming })));
    await storm;
    const committed = await wal.committedIds();
    const atOnce = seen.length;
    seen.push(
      ...(await readUntil(source, lease, { isOver: (rest) => atOnce + rest.length >= committed.length })),
    );
    expect(judge(seen, committed)).to.deep.equal({ lost: 0, repeated: 0, breaks: [] });
  });

  it('gives the cursor a row that was committed before the last position was stored, and not settled', async () => {
    const source = await wal.open();
    const lease = await wal.takeLease();
    await source.nextPage(1, lease);
    await wal.append(['a', 1]);
    const page = await pageOf(source, lease, 1);
    await wal.append(['b', 1]);
    // The snapshot that is stored here shows b as well: going on from it would lose b.
    await source.settle(page, 1, [], lease);
    await source.close();
    await toCursor(lease);
    const seen = await readByCursor(lease, (found) => found.length === 0);
    expect(labels(seen)).to.include('b/1');
    expect((await inspectSlot(wal.db(), wal.names().slot)).walStatus).to.equal('missing');
  });

  it('does not go back to the beginning', async () => {
    const source = await wal.open();
    const lease = await wal.takeLease();
    for (let version = 1; version <= 5; version++) {
      await wal.append(['a', version]);
      await source.settle(await pageOf(source, lease, 1), 1, [], lease);
    }
    await source.close();
    await toCursor(lease);
    const again = labels(await readByCursor(lease, (found) => found.length === 0));
    expect(again).to.deep.equal(['a/5']);
  });

  it('is the way back when the slot is lost', async () => {
    const source = await wal.open();
    const lease = await wal.takeLease();
    await source.nextPage(1, lease);
    await wal.append(['a', 1]);
    await source.settle(await pageOf(source, lease, 1), 1, [], lease);
    await source.close();
    await eventually(() => dropSlot(wal.db(), wal.names().slot));
    await wal.append(['a', 2]);
    await toCursor(lease);
    expect(labels(await readByCursor(lease, (found) => found.length === 0))).to.include('a/2');
    const renewed = await wal.open();
    await wal.append(['a', 3]);
    expect(labels(await readUntil(renewed, lease, { isOver: (rows) => rows.length > 0 }))).to.deep.equal([
      'a/3',
    ]);
  });

  it('leaves the cursor where it was when it had not yet done its part', async () => {
    await wal.append(['a', 1], ['a', 2], ['a', 3]);
    const lease = await wal.takeLease();
    const source = await wal.open();
    await source.settle(await pageOf(source, lease, 1), 1, [], lease);
    await source.close();
    expect(await toCursor(lease)).to.deep.equal({ cursor: null });
    expect(labels(await readByCursor(lease, (found) => found.length === 0))).to.deep.equal(['a/2', 'a/3']);
  });

  it('begins anew with a slot whose maker died before it could store where it begins', async () => {
    const source = await wal.open();
    await source.close();
    await wal.run('truncate outbox_wal_position');
    await wal.append(['a', 1]);
    const lease = await wal.takeLease();
    const next = await wal.open();
    await wal.append(['a', 2]);
    const seen = await readUntil(next, lease, { isOver: (rows) => rows.length >= 2 });
    expect(labels(seen)).to.deep.equal(['a/1', 'a/2']);
  });

  it('is made by one of many who start at once', async () => {
    await wal.append(['a', 1]);
    const sources = await Promise.all([wal.open(), wal.open(), wal.open()]);
    const rows = await wal.run<{ slot: string }>('select slot from outbox_wal_position');
    expect(rows).to.deep.equal([{ slot: wal.names().slot }]);
    expect(sources).to.have.length(3);
  });

  it('is refused to a relay that has lost the lease', async () => {
    const source = await wal.open();
    const mine = await wal.takeLease('paused');
    await source.close();
    await wal.takeLease('next');
    expect(await toCursor(mine).catch((error: unknown) => error)).to.be.instanceOf(LeaseMoved);
    expect((await inspectSlot(wal.db(), wal.names().slot)).walStatus).to.equal('reserved');
  });

  it('is refused while the journal is divided into shards, and leaves no slot behind', async () => {
    await wal.run('update relay_sharding set shards = 4');
    try {
      const refused = await wal.open().catch((error: Error) => error);
      expect(refused).to.have.property('name', 'OperatorError');
      expect(refused)
        .to.have.property('remedy')
        .that.matches(/relay reshard 1/);
      const slots = await wal.run(`select from pg_replication_slots where slot_name = '${wal.names().slot}'`);
      expect(slots).to.deep.equal([]);
    } finally {
      await wal.run('update relay_sharding set shards = 1');
    }
  });

  it('has nothing to do twice', async () => {
    const source = await wal.open();
    const lease = await wal.takeLease();
    await source.close();
    expect(await toCursor(lease)).to.deep.equal({ cursor: null });
    expect(await toCursor(lease)).to.equal(undefined);
  });

  it('does not wait for ever for a transaction that somebody left open', async () => {
    const forgotten = new pg.Client({ connectionString: workspace().endpoints.databaseUrl });
    await forgotten.connect();
    await forgotten.query('begin; select pg_current_xact_id()');
    const refusal = await wal.open({ slotWaitMaxMs: 300 }).catch((error: unknown) => error);
    await forgotten.end();
    expect(refusal).to.be.instanceOf(OperatorError);
    expect((refusal as OperatorError).line).to.match(/older transactions are open/);
    await (await wal.open()).close();
  });
});
