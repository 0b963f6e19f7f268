import { expect } from 'chai';
import type { Busy, DropReport } from '../../../src/dlq-admin/dlq-admin.ts';
import type { LetterSelection } from '../../../src/dlq-admin/select-letters.ts';
import type { Database } from '../../../src/postgres/database.ts';
import {
  type DeadLetterDesk,
  decisionRows,
  forgetDecisions,
  openDeadLetterDesk,
  parkedKeys,
  parkKey,
  writeLetters,
  writeMessage,
} from '../../support/dead-letters.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { auditRows } from '../../support/outbox-admin.ts';
import { useWorkspace } from '../../support/stack.ts';

const forReal = { who: 'cli:ann@desk', dryRun: false };
const dryRun = { ...forReal, dryRun: true };

describe('dropping dead letters', function () {
  this.timeout(120_000);
  const workspace = useWorkspace();
  let db: Database;
  let desk: DeadLetterDesk;
  before(async () => {
    db = openTestDatabase(workspace());
    desk = await openDeadLetterDesk(workspace(), db);
  });
  beforeEach(() => forgetDecisions(db));

  const write = (letters: Parameters<typeof writeLetters>[1]) => writeLetters(workspace(), letters);
  const byIds = (...ids: readonly (string | undefined)[]): LetterSelection => ({
    by: 'ids',
    places: ids.map((id) => desk.place(id ?? '')),
  });
  const byCause = (exception: string): LetterSelection => ({
    by: 'filter',
    filter: { exception },
    limit: 1000,
  });
  const reported = (report: DropReport | Busy): DropReport => {
    if (report.outcome === 'busy') throw new Error('Somebody else is at it');
    return report;
  };
  const drop = async (selection: LetterSelection, options = forReal): Promise<DropReport> =>
    reported(await desk.admin.drop(selection, options));
  const openLetters = async (exception: string): Promise<number> =>
    (await desk.admin.list({ exception, limit: 1000 })).letters.length;

  it('takes them out of sight, and the audit tells who did', async () => {
    const [id, other] = await write([
      { key: 'gone', offset: 1, message: 'out of sight' },
      { key: 'stays', offset: 2, message: 'out of sight' },
    ]);
    expect(await drop(byIds(id))).to.deep.include({ outcome: 'dropped', releasedKeys: 0, refused: [] });
    expect(await openLetters('out of sight')).to.equal(1);
    expect(await decisionRows(db)).to.deep.equal([
      {
        dlqOffset: desk.place(id ?? '').offset,
        decision: 'dropped',
        attempt: 1,
        replayId: null,
        who: forReal.who,
        isDone: true,
        originalOffset: 1,
        key: 'gone',
      },
    ]);
    expect(await auditRows(db)).to.deep.equal([
      { who: forReal.who, action: 'dead-letters.drop', target: { letters: [id] } },
    ]);
    expect((await drop(byIds(other, id))).outcome, 'one of them is gone already').to.equal('refused');
    expect(await openLetters('out of sight')).to.equal(1);
  });

  it('only says what it would do in a dry run', async () => {
    await write([{ message: 'talked about', offset: 1 }]);
    await parkKey(workspace(), db, { key: 'p-1', records: 1 });
    const report = await drop(byCause('talked about'), dryRun);
    expect(report).to.deep.include({ outcome: 'would-drop', releasedKeys: 0 });
    expect(report.letters).to.have.length(1);
    expect(await openLetters('talked about')).to.equal(1);
    expect(await auditRows(db)).to.deep.equal([]);
    expect(await parkedKeys(db)).to.have.length(1);
  });

  it('takes letters off their parked keys and lets a key go on that has none left', async () => {
    await write([
      { key: 'some', offset: 1, message: 'off the key' },
      { key: 'some', offset: 2, message: 'off the key', kind: 'parked' },
      { key: 'all', offset: 3, message: 'off the key' },
      { key: 'all', offset: 4, message: 'off the key', kind: 'parked' },
      { key: 'last', offset: 5, message: 'off the key' },
      { key: 'elsewhere', offset: 6, message: 'off the key' },
      { key: 'older', offset: 7, message: 'off the key', version: 1 },
    ]);
    await parkKey(workspace(), db, { key: 'some', records: 5 });
    await parkKey(workspace(), db, { key: 'all', records: 2 });
    await parkKey(workspace(), db, { key: 'last', records: 1 });
    await parkKey(workspace(), db, { key: 'elsewhere', records: 1, partition: 2 });
    await parkKey(workspace(), db, { key: 'older', records: 1, version: 2 });
    expect((await drop(byCause('off the key'))).releasedKeys).to.equal(2);
    expect(await parkedKeys(db)).to.deep.equal([
      { key: 'elsewhere', records: 1 },
      { key: 'older', records: 1 },
      { key: 'some', records: 3 },
    ]);
  });

  it('counts a letter that was written twice once, in one go and one after the other', async () => {
    const letter = { key: 'twin', message: 'written twice' };
    const [a, b, c, d] = await write([
      { ...letter, offset: 1 },
      { ...letter, offset: 1 },
      { ...letter, offset: 2 },
      { ...letter, offset: 2 },
    ]);
    await parkKey(workspace(), db, { key: 'twin', records: 9 });
    await drop(byIds(a, b));
    expect(await parkedKeys(db)).to.deep.equal([{ key: 'twin', records: 8 }]);
    await drop(byIds(c));
    expect((await drop(byIds(d))).refused).to.have.nested.property('[0].reason', 'decided');
    expect(await parkedKeys(db)).to.deep.equal([{ key: 'twin', records: 7 }]);
    expect(await openLetters('written twice')).to.equal(0);
  });

  it('drops a whole key', async () => {
    await write([
      { key: 'whole', offset: 1, message: 'whole key' },
      { key: 'whole', offset: 2, message: 'whole key', projection: 'product-trend' },
    ]);
    expect((await drop({ by: 'key', key: 'whole' })).letters).to.have.length(2);
    expect(await openLetters('whole key')).to.equal(0);
  });

  it('drops what others have put there', async () => {
    const offset = await writeMessage(workspace(), 'order-events.dlq', { key: null, value: null });
    expect((await drop(byIds(`order-events@${offset}`))).outcome).to.equal('dropped');
    expect((await desk.admin.list({ topic: 'order-events', limit: 9 })).letters).to.deep.equal([]);
  });

  it('does not drop what may be on its way', async () => {
    const [id] = await write([{ message: 'on its way' }]);
    const dying = desk.with({
      openProducer: () => ({
        ...desk.openProducer(),
        send: () => Promise.reject(new Error('killed')),
      }),
    });
    await dying.replay(byIds(id), { ...forReal, force: false }).catch(() => {});
    expect((await drop(byIds(id))).refused).to.have.nested.property('[0].reason', 'replaying');
    await desk.admin.replay(byIds(id), { ...forReal, force: false });
    expect((await drop(byIds(id))).refused).to.have.nested.property('[0].reason', 'decided');
  });

  it('takes more letters than fit into one transaction', async () => {
    await write(Array.from({ length: 1100 }, (_, i) => ({ key: 'lots', offset: i, message: 'lots' })));
    await parkKey(workspace(), db, { key: 'lots', records: 1100 });
    const report = await drop({ by: 'filter', filter: { exception: 'lots' }, limit: 10_000 });
    expect(report.letters).to.have.length(1100);
    expect(report.releasedKeys).to.equal(1);
    expect(await decisionRows(db)).to.have.length(1100);
    expect(await auditRows(db)).to.have.length(3);
  });

  it('changes nothing at all when one part of it fails', async () => {
    const [id] = await write([{ key: 'whole-or-not', message: 'all or nothing' }]);
    await parkKey(workspace(), db, { key: 'whole-or-not', records: 1 });
    const cannotAudit: Database = {
      ...db,
      transaction: (routine) =>
        db.transaction((tx) =>
          routine({
            ...tx,
            execute: (statement, values) =>
              statement.name === 'write-operator-audit'
                ? Promise.reject(new Error('disk full'))
                : tx.execute(statement, values),
          }),
        ),
    };
    const failure = await desk
      .with({ database: cannotAudit })
      .drop(byIds(id), forReal)
      .catch((error: Error) => error.message);
    expect(failure).to.equal('disk full');
    expect(await decisionRows(db)).to.deep.equal([]);
    expect(await parkedKeys(db)).to.have.length(1);
  });
});
