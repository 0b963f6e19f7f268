import { expect } from 'chai';
import { appendEvents } from '../../../src/journal/append-events.ts';
import { OperatorError } from '../../../src/operator-error.ts';
import type { OutboxRow } from '../../../src/relay/outbox-source.ts';
import { dropSlot, SlotLost } from '../../../src/relay/wal/slot.ts';
import { prepareWalSource } from '../../../src/relay/wal/wal-source.ts';
import { eventually } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';
import { judge, labels, pageOf, readUntil, useWal, writeStorm } from '../../support/wal.ts';

describe('WAL source', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();
  const wal = useWal(workspace);

  it('hands over every committed row once, and every aggregate in order', async () => {
    const source = await wal.open();
    const lease = await wal.takeLease();
    let storming = true;
    const reading = readUntil(source, lease, { isOver: () => !storming });
    await writeStorm(wal.db(), { writers: 8, turns: 60 });
    storming = false;
    const seen = [...(await reading)];
    const committed = await wal.committedIds();
    seen.push(
      ...(await readUntil(source, lease, {
        isOver: (rest) => seen.length + rest.length >= committed.length,
      })),
    );
    expect(committed.length).to.be.greaterThan(300);
    expect(judge(seen, committed)).to.deep.equal({ lost: 0, repeated: 0, breaks: [] });
    expect(await source.nextPage(10, lease)).to.equal(undefined);
  });

  it('gives each column as the table has it', async () => {
    const lease = await wal.takeLease();
    const source = await wal.open();
    await wal.append(['a', 1]);
    const page = await pageOf(source, lease, 10);
    const rows = await wal.db().execute<OutboxRow>({
      name: 'spec-columns',
      text: `select id, event_id as "eventId", event_type as "eventType", source, aggregate_type as "aggregateType",
                    aggregate_id as "aggregateId", aggregate_version as "aggregateVersion",
                    partition_key as "partitionKey", request_id as "requestId",
                    schema_fingerprint as "schemaFingerprint", payload, content_hash as "contentHash", traceparent,
                    created_at as "createdAt"
             from outbox`,
    });
    expect(page.rows).to.deep.equal(rows);
  });

  it('gives the same rows until they are settled, and those of a transaction in their order', async () => {
    const source = await wal.open();
    const lease = await wal.takeLease();
    await source.nextPage(1, lease);
    await wal.append(['a', 1], ['b', 1], ['a', 2], ['c', 1]);
    const page = await pageOf(source, lease, 3, 3);
    expect(labels(page.rows)).to.deep.equal(['a/1', 'b/1', 'a/2']);
    const again = await pageOf(source, lease, 3);
    expect(labels(again.rows)).to.deep.equal(['a/1', 'b/1', 'a/2']);
    expect(await source.settle(again, 2, [], lease)).to.equal(true);
    expect(labels((await pageOf(source, lease, 10, 2)).rows)).to.deep.equal(['a/2', 'c/1']);
  });

  it('gives what was not settled again after a crash, and nothing of what was', async () => {
    const crashing = await wal.open();
    const lease = await wal.takeLease();
    await crashing.nextPage(1, lease);
    await wal.append(['a', 1], ['b', 1], ['c', 1]);
    await wal.append(['a', 2]);
    // In the middle of a transaction: the server can only send it as a whole.
    const page = await pageOf(crashing, lease, 10, 4);
    await crashing.settle(page, 2, [], lease);
    await crashing.close();

    const next = await wal.open();
    expect(labels((await pageOf(next, lease, 10, 2)).rows)).to.deep.equal(['c/1', 'a/2']);
  });

  it('does not lose a transaction that commits in the very next bytes of the log', async () => {
    const source = await wal.open();
    const lease = await wal.takeLease();
    await source.nextPage(1, lease);
    const gate = Promise.withResolvers<void>();
    const inserted = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    // Both have written everything but their commits, which then follow each other.
    const transactions = ['first', 'second'].map((aggregate, index) =>
      wal.db().transaction(async (tx) => {
        await appendEvents(tx, [viewOf(aggregate, 1)]);
        inserted[index]?.resolve();
        await gate.promise;
      }),
    );
    await Promise.all(inserted.map(({ promise }) => promise));
    gate.resolve();
    await Promise.all(transactions);
    const page = await pageOf(source, lease, 10, 2);
    await source.settle(page, 1, [], lease);
    await source.close();
    const next = await wal.open();
    expect(labels((await pageOf(next, lease, 10)).rows)).to.deep.equal(labels(page.rows.slice(1)));
  });

  it('confirms nothing that is not settled', async () => {
    const source = await wal.open();
    const lease = await wal.takeLease();
    await source.nextPage(1, lease);
    const begun = (await source.health()).confirmedLsn ?? 0n;
    await wal.append(['a', 1]);
    const page = await pageOf(source, lease, 10);
    const end = await currentLsn();
    // Several reports of our state go by, and much log of others.
    await wal.run('create table spec_noise as select generate_series(1, 100000) as n');
    await wal.run('drop table spec_noise');
    await reportOften();
    const held = (await source.health()).confirmedLsn ?? 0n;
    expect(held >= begun && held < end).to.equal(true);
    await source.settle(page, 1, [], lease);
    await eventually(async () => {
      expect(Number((await source.health()).confirmedLsn)).to.be.greaterThanOrEqual(Number(end));
    });
  });

  /** The newest report that the server has from whoever reads the slot; its time is not in the server's clock. */
  const lastReport = async (): Promise<string> => {
    const [report] = await wal.run<{ at: string }>(
      `select reply_time::text as at from pg_stat_replication
       where pid = (select active_pid from pg_replication_slots where slot_name = '${wal.names().slot}')`,
    );
    if (!report) throw new Error('Nobody reads the slot');
    return report.at;
  };
  const reportOften = async (reports = 3): Promise<void> => {
    for (let count = 0; count < reports; count++) {
      const before = await lastReport();
      await eventually(async () => expect(await lastReport()).not.to.equal(before));
    }
  };

  const currentLsn = async (): Promise<bigint> => {
    const [row] = await wal.db().execute<{ lsn: number }>({
      name: 'spec-lsn',
      text: `select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint as lsn`,
    });
    return BigInt(row?.lsn ?? 0);
  };

  it('lets the server forget its log while the outbox is idle and others write', async () => {
    const lease = await wal.takeLease();
    const source = await wal.open();
    await source.nextPage(1, lease);
    await wal.run('create table spec_noise as select generate_series(1, 200000) as n');
    await wal.run('drop table spec_noise');
    const end = await currentLsn();
    await eventually(async () => {
      const { confirmedLsn, active } = await source.health();
      expect(active).to.equal(true);
      expect(Number(confirmedLsn)).to.be.greaterThanOrEqual(Number(end));
    });
  });

  /** One transaction with so many versions of one aggregate. */
  const appendBulk = (rows: number) =>
    wal.run(
      `insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version,
         partition_key, request_id, schema_fingerprint, payload, content_hash, occurred_at)
       select gen_random_uuid(), 't', 's', 'Bulk', 'one', n, 'k', 'r', sha256('x'),
              convert_to(repeat('p', 200), 'UTF8'), sha256('x'), now()
       from generate_series(1, ${rows}) n`,
    );

  it('keeps its connection while its queue is full for longer than the server waits for an answer', async () => {
    const senderTimeoutMs = 800;
    const database = new URL(workspace().endpoints.databaseUrl).pathname.slice(1);
    await wal.run(`alter database ${database} set wal_sender_timeout = '${senderTimeoutMs}ms'`);
    const source = await wal.open({ queueRowsMax: 10 });
    const lease = await wal.takeLease();
    await source.nextPage(1, lease);
    const { activePid } = await source.health();
    await appendBulk(20_000);
    await pageOf(source, lease, 1);
    const fullSince = Date.now();
    while (Date.now() - fullSince < 3 * senderTimeoutMs) await reportOften(1);
    expect((await source.health()).activePid)
      .to.equal(activePid)
      .and.not.equal(null);
    await wal.run(`alter database ${database} reset wal_sender_timeout`);
    const seen = await readUntil(source, lease, { isOver: (rows) => rows.length >= 20_000, rowsMax: 5000 });
    expect(seen).to.have.length(20_000);
  });

  it('refuses loudly when the server has removed the log that the slot needed', async () => {
    const lease = await wal.takeLease();
    const source = await wal.open();
    await source.nextPage(1, lease);
    source.forget();
    await eventually(async () => expect((await source.health()).active).to.equal(false));
    // The quickest of the server's reasons to give a slot up; the others look the same from here.
    await wal.run(`alter system set idle_replication_slot_timeout = '1s'`);
    try {
      await wal.run('select pg_reload_conf()');
      await eventually(async () => {
        await wal.run('checkpoint');
        expect((await source.health()).walStatus).to.equal('lost');
      });
      const refusal = await source.nextPage(1, lease).catch((error: unknown) => error);
      expect(refusal).to.be.instanceOf(SlotLost);
      expect((refusal as SlotLost).line).to.match(/has given .* up.*relay use-wal/);
    } finally {
      await wal.run('alter system reset idle_replication_slot_timeout');
      await wal.run('select pg_reload_conf()');
    }
  });

  it('holds a bounded number of rows, however far it is behind', async () => {
    const source = await wal.open({ queueRowsMax: 1000 });
    const lease = await wal.takeLease();
    await source.nextPage(1, lease);
    await appendBulk(50_000);
    // As much as it will take by itself: the queue, and what came with the last read of the socket.
    await pageOf(source, lease, 100_000, 1000);
    await reportOften();
    const held = (await pageOf(source, lease, 100_000)).rows.length;
    expect(held).to.be.within(1000, 1000 + (64 * 1024) / 200);
    const seen = await readUntil(source, lease, { isOver: (rows) => rows.length >= 50_000, rowsMax: 700 });
    expect(judge(seen, await wal.committedIds())).to.deep.equal({ lost: 0, repeated: 0, breaks: [] });
  });

  it('passes nothing when the lease has moved', async () => {
    const source = await wal.open();
    const mine = await wal.takeLease('paused');
    await source.nextPage(1, mine);
    await wal.append(['a', 1]);
    const page = await pageOf(source, mine, 10);
    const theirs = await wal.takeLease('next');
    const [row] = page.rows;
    if (!row) throw new Error('The page has a row');
    expect(await source.settle(page, 1, [{ row, error: 'refused', tried: true }], mine)).to.equal(false);
    expect(await wal.run('select * from outbox_failed')).to.deep.equal([]);
    await source.close();
    const next = await wal.open();
    expect(labels((await pageOf(next, theirs, 10)).rows)).to.deep.equal(['a/1']);
  });

  it('takes the slot from a relay that has lost the lease and still holds it', async () => {
    const asleep = await wal.open();
    await asleep.nextPage(1, await wal.takeLease('asleep'));
    const next = await wal.open({ takeOverAfterMs: 200 });
    const lease = await wal.takeLease('next');
    await wal.append(['a', 1]);
    expect(labels((await pageOf(next, lease, 10)).rows)).to.deep.equal(['a/1']);
  });

  it('stores failed rows with the position, and once', async () => {
    const source = await wal.open();
    const lease = await wal.takeLease();
    await source.nextPage(1, lease);
    await wal.append(['a', 1], ['a', 2]);
    const page = await pageOf(source, lease, 10, 2);
    const failed = page.rows.map((row, index) => ({ row, error: 'too large', tried: index === 0 }));
    await source.settle(page, 1, failed.slice(0, 1), lease);
    await source.settle(page, 2, failed, lease);
    const stored = await wal.run(
      `select failed.aggregate_version as version, last_error as error, retry_count as retries,
              failed.payload = outbox.payload as same
       from outbox_failed failed join outbox on outbox.id = outbox_id order by outbox_id`,
    );
    expect(stored).to.deep.equal([
      { version: 1, error: 'too large', retries: 0, same: true },
      { version: 2, error: 'too large', retries: 0, same: true },
    ]);
    expect(await source.nextPage(10, lease)).to.equal(undefined);
  });

  it('begins again from what is stored when it is told to forget', async () => {
    const source = await wal.open();
    const lease = await wal.takeLease();
    await source.nextPage(1, lease);
    await wal.append(['a', 1], ['a', 2]);
    await source.settle(await pageOf(source, lease, 2, 2), 1, [], lease);
    source.forget();
    expect(
      (await pageOf(source, lease, 10)).rows.map(({ aggregateVersion }) => aggregateVersion),
    ).to.deep.equal([2]);
  });

  it('connects again when its connection is cut, in the middle of a page too', async () => {
    let changes = 0;
    const source = await wal.open({}, () => {
      changes += 1;
    });
    const lease = await wal.takeLease();
    await source.nextPage(1, lease);
    await wal.append(['a', 1], ['a', 2]);
    const page = await pageOf(source, lease, 1);
    await eventually(() => expect(changes).to.equal(1));
    await wal.run(
      'select pg_terminate_backend(active_pid) from pg_replication_slots where active_pid is not null',
    );
    await eventually(() => expect(changes).to.equal(2));
    expect(await source.settle(page, 1, [], lease)).to.equal(true);
    await wal.append(['a', 3]);
    expect(labels((await pageOf(source, lease, 10, 2)).rows)).to.deep.equal(['a/2', 'a/3']);
  });

  it('refuses loudly when the slot is gone, and says what to do', async () => {
    const source = await wal.open();
    const lease = await wal.takeLease();
    await source.nextPage(1, lease);
    await wal.append(['a', 1]);
    await source.settle(await pageOf(source, lease, 1), 1, [], lease);
    source.forget();
    await eventually(() => dropSlot(wal.db(), wal.names().slot));
    const refusal = await source.nextPage(1, lease).catch((error: unknown) => error);
    expect(refusal).to.be.instanceOf(SlotLost);
    expect((refusal as SlotLost).line).to.match(/is gone.*relay use-wal/);
    expect((await source.health()).walStatus).to.equal('missing');
    const next = await wal.open();
    expect(await next.nextPage(1, lease).catch((error: unknown) => error)).to.be.instanceOf(SlotLost);
  });

  it('tells a role without the privilege what it lacks', async () => {
    const role = `spec_plain_${process.pid}`;
    await wal.run(`create role ${role} login password 'plain'`);
    try {
      const url = new URL(workspace().endpoints.databaseUrl);
      url.username = role;
      url.password = 'plain';
      const refusal = await prepareWalSource({
        database: wal.db(),
        databaseUrl: url.href,
        applicationName: 'spec',
        log: silentLog(),
        settings: wal.names(),
      }).catch((error: unknown) => error);
      expect(refusal).to.be.instanceOf(OperatorError);
      expect((refusal as OperatorError).line).to.match(/alter role .* with replication/);
    } finally {
      await wal.run(`drop role ${role}`);
    }
  });

  it('refuses a publication of anything but the outbox', async () => {
    await wal.run(`create publication ${wal.names().publication} for table outbox, outbox_failed`);
    const refusal = await wal.open().catch((error: unknown) => error);
    expect(refusal).to.be.instanceOf(OperatorError);
    expect((refusal as OperatorError).line).to.match(/not one of the inserts into outbox alone/);
  });

  it('begins with the rows that were there before its slot, from where the cursor was', async () => {
    await wal.append(['a', 1], ['a', 2]);
    const source = await wal.open();
    const lease = await wal.takeLease();
    await wal.db().transaction((tx) => appendEvents(tx, [viewOf('a', 3)]));
    const before = await pageOf(source, lease, 10);
    expect(labels(before.rows)).to.deep.equal(['a/1', 'a/2']);
    await source.settle(before, 1, [], lease);
    await source.close();
    const next = await wal.open();
    const seen = await readUntil(next, lease, { isOver: (rows) => rows.length >= 2 });
    expect(labels(seen)).to.deep.equal(['a/2', 'a/3']);
  });
});
