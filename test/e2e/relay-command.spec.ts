import { hostname, userInfo } from 'node:os';
import { expect } from 'chai';
import type { Database } from '../../src/postgres/database.ts';
import { createRelayAdmin } from '../../src/relay-admin/relay-admin.ts';
import { type CliProcess, environmentOf, readyUrl, runCli, startCli } from '../support/cli.ts';
import { eventually } from '../support/eventually.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { appendViews, auditRows } from '../support/outbox-admin.ts';
import { useWorkspace } from '../support/stack.ts';

describe('millrace relay', function () {
  this.timeout(300_000);
  const workspace = useWorkspace();
  const who = `cli:${userInfo().username}@${hostname()}`;
  let db: Database;
  let relay: CliProcess;
  before(async () => {
    db = openTestDatabase(workspace());
    const env = { ...environmentOf(workspace()), RELAY_STALL_AFTER_MS: '500', MILLRACE_LOG_FORMAT: 'json' };
    relay = startCli(['up', '--role', 'relay'], env);
    workspace().closeAtEnd(async () => {
      relay.child.kill('SIGTERM');
      await relay.ended;
    });
    await readyUrl(relay);
  });

  /** Brokers and registry that nobody answers at: none of this may need them. */
  const withoutBrokers = () => ({
    ...environmentOf(workspace()),
    KAFKA_BROKERS: '127.0.0.1:1',
    SCHEMA_REGISTRY_URL: 'http://127.0.0.1:1',
    RELAY_STALL_AFTER_MS: '500',
  });
  const millrace = (...args: readonly string[]) => runCli(args, withoutBrokers());
  const json = async (...args: readonly string[]) => {
    const { stdout, stderr } = await millrace(...args, '--json');
    try {
      return JSON.parse(stdout);
    } catch {
      throw new Error(`${args.join(' ')} printed no JSON: ${stdout} ${stderr}`);
    }
  };
  /** Not through the command line: a process for every look would take longer than the relay does. */
  const statusNow = () =>
    createRelayAdmin(db, {
      stallAfterMs: 500,
      slotLagBytesMax: 1e12,
      handledRetentionMs: 7 * 86_400_000,
    }).status();
  const nothingPending = () =>
    eventually(async () => expect((await statusNow()).pending).to.equal(0), { timeoutMs: 60_000 });
  const logLines = (): readonly string[] =>
    relay
      .stderr()
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => (JSON.parse(line) as { msg: string }).msg);

  it('pauses the relay of another process, says why nothing moves, and lets it go on', async () => {
    await appendViews(db, 'before', { count: 2 });
    await nothingPending();

    const paused = await millrace('relay', 'pause', '--reason', 'broker upgrade');
    expect(paused.code, paused.stderr).to.equal(0);
    expect(paused.stdout).to.equal('The relay is paused. Let it go on with npx millrace relay resume.\n');
    await appendViews(db, 'during', { count: 3 });

    await eventually(async () => expect((await statusNow()).late).to.have.length(1), { timeoutMs: 60_000 });
    const status = await json('relay', 'status');
    expect(status.late).to.have.nested.property('[0].reason.kind', 'paused');
    expect(status).to.include({ pending: 3 });
    expect(status.pause).to.include({ by: who, because: 'broker upgrade' });
    expect(status.shards[0].heldBy).to.equal(null);
    expect(status.processes).to.have.length(1);
    const checked = await millrace('relay', 'status', '--check');
    expect(checked.code, checked.stderr).to.equal(3);
    expect(checked.stdout)
      .to.match(new RegExp(`^PAUSED \\d+ s ago by ${who}: broker upgrade\n3 pending`))
      .and.match(/^LATE: The relay is paused since .*: broker upgrade\. Let it go on with npx millrace/m);
    const whole = await millrace('status');
    expect(whole.code, whole.stderr).to.equal(0);
    expect(whole.stdout)
      .to.match(/^ {2}LATE: The relay is paused/m)
      .and.match(/TOPICS\n {2}not known: The brokers 127.0.0.1:1 cannot be used: the connection is refused/);
    await eventually(() => {
      expect(logLines()).to.include('The relay is paused: events wait until somebody lets it go on');
      expect(logLines().some((line) => line.startsWith('Events are late: The relay is paused'))).to.equal(
        true,
      );
    });

    const again = await millrace('relay', 'pause');
    expect(again.stdout).to.match(
      new RegExp(`^The relay was paused already, by ${who} at .*: broker upgrade`),
    );
    const resumed = await millrace('relay', 'resume');
    expect(resumed.code, resumed.stderr).to.equal(0);
    expect(resumed.stdout).to.match(/^The relay goes on\. It was paused by .*: broker upgrade\.\n$/);
    await nothingPending();
    expect(await json('relay', 'resume')).to.deep.equal({ ended: null });
    expect(await json('relay', 'use-wal')).to.deep.equal({ ended: null });
    await eventually(() =>
      expect(logLines()).to.include.members([
        'The relay goes on after its pause',
        'Events are on time again',
      ]),
    );
    expect((await auditRows(db)).map((row) => `${row.action} ${row.who}`)).to.deep.equal([
      `relay.pause ${who}`,
      `relay.resume ${who}`,
    ]);
  });

  it('publishes again from an id, after saying what that would be', async () => {
    const rows = await appendViews(db, 'again', { count: 2 });
    await nothingPending();
    const fromId = String(rows[0]?.id);
    const tried = await millrace('relay', 'resync', '--from-id', fromId, '--dry-run');
    expect(tried.stdout, tried.stderr).to.equal(
      `2 events from id ${fromId} to ${rows[1]?.id} would be published again.\n`,
    );
    expect((await auditRows(db)).some(({ action }) => action === 'relay.resync')).to.equal(false);
    expect(await json('relay', 'resync', '--from-id', fromId)).to.include({ dryRun: false, rows: 2 });
    await nothingPending();
    const [entry] = (await auditRows(db)).filter(({ action }) => action === 'relay.resync');
    expect(entry).to.deep.include({ who }).and.have.nested.property('target.rows', 2);
  });

  it('explains wrong usage', async () => {
    const wrong = [
      ['pause', '--reason', ' '],
      ['pause', 'now'],
      ['resume', '--force'],
      ['resync'],
      ['resync', '--from-id', '0'],
      ['resync', '--from-id', '1e3'],
      ['reshard', '65'],
    ];
    const answers = await Promise.all(wrong.map((args) => millrace('relay', ...args)));
    for (const [index, { code, stdout, stderr }] of answers.entries()) {
      expect(code, `${wrong[index]?.join(' ')}: ${stderr}`).to.equal(2);
      expect(stdout).to.equal('');
    }
  });
});
