import { expect } from 'chai';
import { inOrder } from '../../../src/postgres/create-replication-slot.ts';
import type { SqlRunner } from '../../../src/postgres/database.ts';
import { formatLsn, parseLsn } from '../../../src/postgres/lsn.ts';
import type { OutboxRow } from '../../../src/relay/outbox-source.ts';
import { requireLogicalLog } from '../../../src/relay/wal/slot.ts';
import { WalQueue } from '../../../src/relay/wal/wal-queue.ts';

const row = (id: number, payloadBytes = 1): OutboxRow => ({
  id,
  eventId: `${id}`,
  eventType: 't',
  source: 's',
  aggregateType: 'T',
  aggregateId: `${id}`,
  aggregateVersion: 1,
  partitionKey: 'k',
  requestId: 'r',
  schemaFingerprint: Buffer.alloc(0),
  payload: Buffer.alloc(payloadBytes),
  contentHash: Buffer.alloc(0),
  traceparent: null,
  createdAt: new Date(0),
});

const queueFrom = (settled = { lsn: 0n, rows: 0 }) =>
  new WalQueue({ rowsMax: 4, bytesMax: 10_000, settled, confirmed: 5n });

const transaction = (queue: WalQueue, { lsn, ids }: { lsn: bigint; ids: readonly number[] }): void => {
  queue.begin(lsn);
  for (const id of ids) queue.insert(row(id));
  queue.commit(lsn + 5n);
};

const ids = (queue: WalQueue): readonly number[] => queue.peek(100).map((queued) => queued.row.id);

describe('WAL queue', () => {
  it('confirms a transaction when the last of its rows is settled', () => {
    const queue = queueFrom();
    transaction(queue, { lsn: 10n, ids: [1, 2] });
    queue.settle({ lsn: 10n, rows: 1 });
    expect([queue.confirmed, ids(queue)]).to.deep.equal([5n, [2]]);
    queue.settle({ lsn: 10n, rows: 2 });
    expect([queue.confirmed, ids(queue)]).to.deep.equal([15n, []]);
  });

  it('shows what lies behind a position before that is settled', () => {
    const queue = queueFrom();
    transaction(queue, { lsn: 10n, ids: [1, 2] });
    transaction(queue, { lsn: 20n, ids: [3, 4] });
    queue.settle({ lsn: 10n, rows: 1 });
    const behind = (lsn: bigint, rows: number) => queue.peek(2, { lsn, rows }).map(({ row: { id } }) => id);
    expect(behind(5n, 0)).to.deep.equal([2, 3]);
    expect(behind(10n, 2)).to.deep.equal([3, 4]);
    expect(behind(20n, 1)).to.deep.equal([4]);
    expect(behind(20n, 2)).to.deep.equal([]);
  });

  it('does not confirm a transaction whose end it has not seen', () => {
    const queue = queueFrom();
    queue.begin(10n);
    queue.insert(row(1));
    queue.settle({ lsn: 10n, rows: 1 });
    queue.keepalive(30n);
    expect(queue.confirmed).to.equal(5n);
    queue.insert(row(2));
    queue.commit(15n);
    expect([queue.confirmed, ids(queue)]).to.deep.equal([5n, [2]]);
  });

  it('confirms what the server says only when nothing is left, and then at once', () => {
    const queue = queueFrom();
    transaction(queue, { lsn: 10n, ids: [1] });
    queue.keepalive(40n);
    expect(queue.confirmed).to.equal(5n);
    queue.settle({ lsn: 10n, rows: 1 });
    expect(queue.confirmed).to.equal(40n);
    queue.keepalive(50n);
    expect(queue.confirmed).to.equal(50n);
    queue.keepalive(45n);
    expect(queue.confirmed, 'it never goes back').to.equal(50n);
  });

  it('skips what was settled before, and confirms it', () => {
    const queue = queueFrom({ lsn: 20n, rows: 1 });
    transaction(queue, { lsn: 10n, ids: [1] });
    expect(queue.confirmed).to.equal(15n);
    transaction(queue, { lsn: 20n, ids: [2, 3] });
    expect([queue.confirmed, ids(queue)]).to.deep.equal([15n, [3]]);
  });

  it('skips what is settled while it is on its way a second time', () => {
    const queue = queueFrom();
    queue.settle({ lsn: 10n, rows: 1 });
    transaction(queue, { lsn: 10n, ids: [1, 2] });
    expect(ids(queue)).to.deep.equal([2]);
  });

  it('is full by rows or by bytes, and has room again at half', () => {
    const queue = queueFrom();
    transaction(queue, { lsn: 10n, ids: [1, 2, 3] });
    expect([queue.isFull, queue.hasRoom]).to.deep.equal([false, false]);
    transaction(queue, { lsn: 20n, ids: [4] });
    expect(queue.isFull).to.equal(true);
    queue.settle({ lsn: 10n, rows: 2 });
    expect([queue.isFull, queue.hasRoom]).to.deep.equal([false, true]);
    queue.begin(30n);
    queue.insert(row(5, 20_000));
    expect(queue.isFull).to.equal(true);
  });
});

describe('position in the log', () => {
  it('is written as PostgreSQL writes it', () => {
    expect(parseLsn('16/B374D848')).to.equal(0x16_b374_d848n);
    expect(formatLsn(parseLsn('00000016/0374D848'))).to.equal('16/374D848');
    expect(() => parseLsn('16')).to.throw(RangeError);
  });
});

describe('log that is not logical', () => {
  const serverWith = (walLevel: string): SqlRunner => ({
    execute: <Row>() => Promise.resolve([{ walLevel } as Row]),
    checked: () => Promise.reject(new Error('not asked')),
  });

  it('is refused with what to do', async () => {
    const refusal = await requireLogicalLog(serverWith('replica')).catch(
      (error: { line: string }) => error.line,
    );
    expect(refusal).to.match(/wal_level=replica.*Set wal_level=logical/);
    await requireLogicalLog(serverWith('logical'));
  });
});

describe('snapshot of a slot', () => {
  it('is brought into the order that PostgreSQL reads', () => {
    expect(inOrder('2894:2893:')).to.equal('2894:2894:');
    expect(inOrder('2894:2894:')).to.equal('2894:2894:');
    expect(inOrder('9:10:9')).to.equal('9:10:9');
    expect(inOrder('999:1002:1000,1001')).to.equal('999:1002:1000,1001');
  });
});
