import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { isRunning } from '../../../src/infra/embedded/process-identity.ts';
import { readStackState } from '../../../src/infra/embedded/stack-state.ts';
import { eventually } from '../../support/eventually.ts';
import { OwnerProcess } from './owner-process.ts';
import { processesOf } from './processes-of.ts';
import { query } from './stack-probes.ts';
import { settingsFor, temporaryDataDir } from './stack-settings.ts';

describe('a stack whose owner comes to a sudden end', function () {
  this.timeout(180_000);
  const dataDir = temporaryDataDir();
  const owners: OwnerProcess[] = [];
  const start = (): OwnerProcess => {
    const owner = new OwnerProcess(settingsFor(dataDir));
    owners.push(owner);
    return owner;
  };
  const nothingIsLeft = () => expect(processesOf(dataDir)).to.deep.equal([]);
  const children = () => readStackState(join(dataDir, 'stack.json'))?.children ?? [];
  const pidOf = (name: string): number =>
    children().find((child) => child.name === name)?.pid ?? expect.fail(name);

  after(async () => {
    for (const owner of owners) await owner.end();
    for (const { pid } of children().filter(isRunning)) process.kill(pid, 'SIGKILL');
    rmSync(dataDir, { recursive: true, force: true });
  });

  it('leaves nothing when it is killed in the middle of its first start', async () => {
    const owner = start();
    await eventually(() =>
      expect(children().map(({ name }) => name)).to.include.members(['initdb', 'kafka-storage']),
    );
    await owner.signal('SIGKILL');
    await eventually(nothingIsLeft, { timeoutMs: 60_000, what: 'the watchdog ends the tools' });
    expect(existsSync(join(dataDir, 'postgres')), 'half a data directory with a good name').to.equal(false);
    expect(existsSync(join(dataDir, 'kafka')), 'half a data directory with a good name').to.equal(false);
  });

  it('is shared by two starts at once, and goes with its owner when that is killed', async () => {
    const both = [start(), start()];
    const answers = await Promise.all(both.map((owner) => owner.ready()));
    expect(answers.map(({ owned = 0 }) => owned > 0).toSorted()).to.deep.equal([false, true]);
    expect(answers[0]?.endpoints).to.deep.equal(answers[1]?.endpoints);
    const [joined, owner] = answers[0]?.owned === 0 ? both : both.toReversed();

    expect(await joined?.signal('SIGINT')).to.deep.include({ code: 0 });
    const { databaseUrl = '' } = answers[0]?.endpoints ?? {};
    expect(await query(databaseUrl, 'select 1 as one')).to.deep.equal([{ one: 1 }]);
    expect(children().map(({ name }) => name)).to.have.members([
      'watchdog',
      'postgres',
      'kafka-1',
      'registry',
      'redis',
    ]);

    await owner?.signal('SIGKILL');
    await eventually(nothingIsLeft, { timeoutMs: 60_000, what: 'the watchdog ends the servers' });
  });

  it('starts again after that; with its watchdog killed too, the next start ends what was left', async () => {
    const owner = start();
    await owner.ready();
    const watchdog = pidOf('watchdog');
    const servers = children().filter(({ name }) => name !== 'watchdog');
    process.kill(watchdog, 'SIGSTOP');
    await owner.signal('SIGKILL');
    process.kill(watchdog, 'SIGKILL');
    for (const { pid, name } of servers) expect(() => process.kill(pid, 0), name).to.not.throw();

    const next = start();
    await next.ready();
    const warning = next.said.find(({ logged }) => logged?.includes('earlier start'))?.logged ?? '';
    for (const { name, pid } of servers) expect(warning).to.include(`${name} (pid ${pid})`);
    for (const { pid, name } of servers) expect(() => process.kill(pid, 0), name).to.throw();

    expect(await next.signal('SIGINT')).to.deep.include({ code: 0 });
    nothingIsLeft();
  });
});
