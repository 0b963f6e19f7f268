import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { OperatorError } from '../../../src/operator-error.ts';
import type { ImportReport } from '../../../src/outbox-admin/import-backup.ts';
import { createOutboxAdmin, type OutboxAdmin } from '../../../src/outbox-admin/outbox-admin.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { createDeadLetterNet, letterToJson } from '../../../src/relay/dead-letters.ts';
import type { OutboxRow } from '../../../src/relay/outbox-source.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import {
  appendViews,
  auditRows,
  changeableState,
  clearHeldEvents,
  park,
  passEverything,
} from '../../support/outbox-admin.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const who = 'cli:ann@desk';
const forReal = { who, dryRun: false };
const reason = 'message too large';

describe('the import of backed-up dead letters', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();
  const directory = mkdtempSync(join(tmpdir(), 'millrace-import-'));
  let db: Database;
  let outbox: OutboxAdmin;
  let file: string;
  let files = 0;
  before(() => {
    db = openTestDatabase(workspace());
    outbox = createOutboxAdmin(db, () => new Date('2026-02-03T04:05:06.007Z'));
  });
  beforeEach(async () => {
    await clearHeldEvents(db);
    file = join(directory, `letters-${++files}.jsonl`);
  });
  after(() => rmSync(directory, { recursive: true, force: true }));

  const one = async (aggregateId: string): Promise<OutboxRow> => {
    const [row] = await appendViews(db, aggregateId, { count: 1 });
    return row ?? expect.fail('no row');
  };
  const line = (row: OutboxRow): string => JSON.stringify(letterToJson({ row, reason }));
  const results = ({ lines }: ImportReport): string[] =>
    lines.map(({ line: at, result }) => `${at} ${result}`);

  it('brings back what the relay wrote when its table was broken', async () => {
    const row = await one('round-1');
    const broken: Database = { ...db, execute: () => Promise.reject(new Error('the table is locked')) };
    const net = createDeadLetterNet({ database: broken, backupFile: file, log: silentLog() });
    await net.keep([{ row, reason }]);
    expect(net.counts).to.include({ backedUp: 1 });
    expect(await outbox.dead({ limit: 9 })).to.deep.equal([]);

    const report = await outbox.importBackup(file, forReal);
    expect(results(report)).to.deep.equal(['1 imported']);
    expect(report.file).to.equal(`${file}.imported-2026-02-03T04-05-06.007Z`);
    expect(existsSync(file)).to.equal(false);
    expect(existsSync(report.file)).to.equal(true);
    const [event] = await outbox.dead({ limit: 9 });
    expect(event).to.include({ id: row.id, state: 'dead', lastError: reason });
    const [letter] = await db.execute<{ envelope: unknown; reason: string }>({
      name: 'spec-letter',
      text: 'select envelope, reason from outbox_dead_letter',
    });
    expect(letter).to.deep.equal({ envelope: JSON.parse(line(row)), reason });
    const [kept] = await db.execute<Partial<OutboxRow>>({
      name: 'spec-kept',
      text: `select payload, content_hash as "contentHash", created_at as "createdAt" from outbox_failed`,
    });
    expect(kept).to.deep.equal({
      payload: row.payload,
      contentHash: row.contentHash,
      createdAt: row.createdAt,
    });
    expect(await auditRows(db)).to.deep.equal([
      {
        who,
        action: 'outbox.import-backup',
        target: { outboxId: row.id, eventId: row.eventId, file: report.file },
      },
    ]);
    expect(await outbox.retry({ event: { outboxId: row.id } }, forReal)).to.include({ revived: 1 });
  });

  it('adds the letter of a dead row that has none, and nothing to one that has', async () => {
    const row = await one('half-1');
    await park(db, [row], { dead: true });
    writeFileSync(file, `${line(row)}\n${line(row)}\n`);
    expect(results(await outbox.importBackup(file, forReal))).to.deep.equal([
      '1 imported',
      '2 there-already',
    ]);
    expect(await auditRows(db)).to.have.length(1);
  });

  it('takes letters of the retry relay, which count their tries', async () => {
    const row = { ...(await one('count-1')), retryCount: 10 };
    writeFileSync(file, `${line(row)}\n`);
    expect(results(await outbox.importBackup(file, forReal))).to.deep.equal(['1 imported']);
  });

  it('does not hold up what was sent, dropped or put back since', async () => {
    const [sent, dropped, trying] = [await one('sent-1'), await one('dropped-1'), await one('trying-1')];
    await park(db, [dropped], { dead: true });
    await park(db, [trying], { dead: false });
    await passEverything(db);
    await outbox.drop({ outboxId: dropped.id }, forReal);
    writeFileSync(file, [sent, dropped, trying].map((row) => `${line(row)}\n`).join(''));
    const before = await changeableState(db);
    const report = await outbox.importBackup(file, forReal);
    expect(results(report)).to.deep.equal(['1 not-needed', '2 not-needed', '3 not-needed']);
    expect(await changeableState(db)).to.deep.equal(before);
  });

  it('reports bad lines and goes on with the others', async () => {
    const [first, second] = [await one('good-1'), await one('good-2')];
    const changed = (change: Record<string, unknown>): string =>
      JSON.stringify({ ...letterToJson({ row: first, reason }), ...change });
    const lines = [
      line(first),
      '{"id": 1, "eve',
      '[]',
      changed({ payload: '§§' }),
      changed({ contentHash: 'abcd' }),
      changed({ newerField: 1 }),
      changed({ id: 999_999 }),
      changed({ id: second.id }),
      '',
      line(second),
    ];
    writeFileSync(file, lines.join('\n'));
    const report = await outbox.importBackup(file, forReal);
    expect(results(report)).to.deep.equal([
      '1 imported',
      ...[2, 3, 4, 5, 6, 7, 8].map((at) => `${at} bad`),
      '10 imported',
    ]);
    expect(report.lines[1]?.detail).to.equal('It is not JSON');
    expect(report.lines[3]?.detail).to.match(/^payload: /);
    expect(report.lines[7]?.detail).to.match(/has no event/);
    expect(readFileSync(report.file, 'utf8'), 'bad lines are not lost').to.equal(lines.join('\n'));
  });

  it('changes nothing in a dry run, the file included', async () => {
    const row = await one('dry-1');
    writeFileSync(file, `${line(row)}\nnonsense\n`);
    const before = await changeableState(db);
    const report = await outbox.importBackup(file, { who, dryRun: true });
    expect(results(report)).to.deep.equal(['1 would-import', '2 bad']);
    expect(report.file).to.equal(file);
    expect(existsSync(file)).to.equal(true);
    expect(await changeableState(db)).to.deep.equal(before);
  });

  it('puts the file back when the database fails, unless a relay has begun a new one', async () => {
    const row = await one('broken-1');
    writeFileSync(file, `${line(row)}\n`);
    let onFailure = (): void => {};
    const broken = createOutboxAdmin({
      ...db,
      transaction: async () => {
        onFailure();
        throw new Error('gone');
      },
    });
    const failure = (): Promise<OperatorError> =>
      broken.importBackup(file, forReal).then(
        () => expect.fail('it did not fail'),
        (error: OperatorError) => error,
      );
    expect(await failure())
      .to.be.instanceOf(OperatorError)
      .with.property('line')
      .that.includes(`Import ${file} again`);
    expect(readFileSync(file, 'utf8')).to.equal(`${line(row)}\n`);

    onFailure = () => writeFileSync(file, 'from the relay\n');
    const { line: told } = await failure();
    expect(told).to.match(/Import \S+\.imported-\S+ again/);
    expect(readFileSync(file, 'utf8')).to.equal('from the relay\n');
  });

  it('says when there is no such file', async () => {
    const error = await outbox
      .importBackup(join(directory, 'nowhere'), forReal)
      .catch((cause: Error) => cause);
    expect(error).to.be.instanceOf(OperatorError);
  });
});
