import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Database } from '../../src/postgres/database.ts';
import { letterToJson } from '../../src/relay/dead-letters.ts';
import { environmentOf, readyUrl, runCli, startCli } from '../support/cli.ts';
import { eventually } from '../support/eventually.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { appendViews, auditRows, park, passEverything } from '../support/outbox-admin.ts';
import { useWorkspace } from '../support/stack.ts';

describe('millrace outbox', function () {
  this.timeout(300_000);
  const workspace = useWorkspace();
  const directory = mkdtempSync(join(tmpdir(), 'millrace-outbox-'));
  let db: Database;
  before(() => {
    db = openTestDatabase(workspace());
  });
  after(() => rmSync(directory, { recursive: true, force: true }));

  const outbox = (...args: readonly string[]) => runCli(['outbox', ...args], environmentOf(workspace()));
  const json = async (...args: readonly string[]) => {
    const { stdout, stderr } = await outbox(...args, '--json');
    try {
      return JSON.parse(stdout);
    } catch {
      throw new Error(`${args.join(' ')} printed no JSON: ${stdout} ${stderr}`);
    }
  };

  it('lists, shows, drops and retries, until the relay has published the rest', async () => {
    const rows = await appendViews(db, 'stuck', { count: 3 });
    const [first, second] = rows;
    if (!first || !second) throw new Error('no rows');
    await park(db, rows, { dead: true });
    await passEverything(db);
    const id = String(first.id);

    const dead = await outbox('dead', '--check', '--aggregate', 'ProductView/stuck');
    expect(dead.code, dead.stderr).to.equal(3);
    expect(dead.stdout).to.match(
      /^ID +AGGREGATE.*LAST ERROR\n\d+ +ProductView\/stuck@1 .* dead +0 +message too large/,
    );
    expect((await outbox('dead', '--check', '--type', 'none')).code).to.equal(0);
    expect((await json('failed')).events).to.have.length(2);
    expect((await outbox('pending')).stdout).to.equal('No pending events.\n');
    const shown = await outbox('show', first.eventId);
    expect(shown.stdout)
      .to.match(new RegExp(`^EVENT ${id}\n`))
      .and.match(/state +dead/)
      .and.match(/"productId": "stuck"/);

    const asked = await outbox('drop', '--id', id);
    expect(asked.code, asked.stderr).to.equal(0);
    expect(asked.stdout).to.match(/Would drop.*--yes.*Consumers of .* will never see version 1/);
    expect((await json('dead')).events, 'still there').to.have.length(1);
    expect((await json('drop', '--id', id, '--yes')).outcome).to.equal('dropped');
    expect((await outbox('drop', '--id', id, '--yes')).code).to.equal(1);
    expect(await json('show', id)).to.include({ state: 'dropped' });

    const retried = await json('retry', '--aggregate', 'ProductView/stuck');
    expect(retried).to.deep.equal({ dryRun: false, events: 2, aggregates: 1, revived: 0 });
    const by = `cli:${userInfo().username}@${hostname()}`;
    expect((await auditRows(db)).map(({ who, action }) => `${action} ${who}`)).to.deep.equal([
      `outbox.drop ${by}`,
      `outbox.retry ${by}`,
    ]);

    const relay = startCli(['up', '--role', 'relay'], environmentOf(workspace()));
    await readyUrl(relay);
    await eventually(async () => expect((await json('failed')).events).to.deep.equal([]));
    expect(await json('show', String(second.id))).to.include({ state: 'sent' });
    relay.child.kill('SIGTERM');
    expect(await relay.ended, relay.stderr()).to.equal(0);
  });

  it('imports a backup file and says which lines it could not use', async () => {
    const [row] = await appendViews(db, 'backed-up', { count: 1 });
    if (!row) throw new Error('no row');
    const file = join(directory, 'dead-letters.jsonl');
    writeFileSync(file, `${JSON.stringify(letterToJson({ row, reason: 'too large' }))}\nnonsense\n`);
    const tried = await outbox('import-backup', file, '--dry-run');
    expect(tried.stdout).to.match(/1 +\d+ +would-import +too large\n2 +- +bad +It is not JSON\n.*stays/);
    const { code, stdout } = await outbox('import-backup', file);
    expect(code, 'one line was bad').to.equal(1);
    expect(stdout).to.match(/1 +\d+ +imported/);
    expect(existsSync(file)).to.equal(false);
    expect((await json('dead')).events).to.have.nested.property('[0].id', row.id);
  });

  it('can be looked at while the brokers and the registry do not answer', async () => {
    const env = {
      ...environmentOf(workspace()),
      KAFKA_BROKERS: '127.0.0.1:1',
      SCHEMA_REGISTRY_URL: 'http://127.0.0.1:1',
    };
    const { code, stderr } = await runCli(['outbox', 'failed'], env);
    expect(code, stderr).to.equal(0);
  });

  it('explains wrong usage', async () => {
    const wrong = [
      ['retry'],
      ['retry', '--all', '--id', '1'],
      ['retry', '--aggregate', 'stuck'],
      ['drop', '--yes'],
      ['drop', '--id', '1', '--yes', '--dry-run'],
      ['show', 'x'],
      ['failed', '--limit', '0'],
      ['import-backup'],
    ];
    const answers = await Promise.all(wrong.map((args) => outbox(...args)));
    for (const [index, { code, stdout, stderr }] of answers.entries()) {
      expect(code, `${wrong[index]?.join(' ')}: ${stderr}`).to.equal(2);
      expect(stdout).to.equal('');
    }
    const { code, stderr } = await outbox('show', '999999');
    expect(code).to.equal(1);
    expect(stderr).to.match(/no such event/);
  });
});
