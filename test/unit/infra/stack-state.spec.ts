import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { identifyProcess, isRunning, ownIdentity } from '../../../src/infra/embedded/process-identity.ts';
import {
  isLive,
  readStackState,
  type StackState,
  staleChildren,
  writeStackState,
} from '../../../src/infra/embedded/stack-state.ts';
import { stopStaleChildren } from '../../../src/infra/embedded/stale-children.ts';
import { recordingLog } from '../../support/silent-log.ts';

const nobody = { pid: 2 ** 22 + 1, startedAt: 'never' };

const state = (change: Partial<StackState> = {}): StackState => ({
  phase: 'ready',
  owner: ownIdentity(),
  children: [],
  endpoints: {},
  ports: {},
  brokers: 1,
  ...change,
});

describe('stack.json', () => {
  let folder: string;
  let path: string;

  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-state-'));
    path = join(folder, 'stack.json');
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  it('comes back as it was written, readable by nobody else', () => {
    const written = state({ ports: { postgres: 5432 }, endpoints: { databaseUrl: 'postgres://secret' } });
    writeStackState(path, written);
    expect(readStackState(path)).to.deep.equal(written);
    expect(statSync(path).mode & 0o777).to.equal(0o600);
  });

  it('counts as absent when it is damaged', () => {
    for (const damage of ['', '{"phase":"rea', '{"phase":"ready"}', '[]']) {
      writeFileSync(path, damage);
      expect(readStackState(path), damage).to.equal(undefined);
    }
  });

  it('is live only when it is ready and its owner runs', () => {
    expect(isLive(state())).to.equal(true);
    expect(isLive(state({ phase: 'starting' }))).to.equal(false);
    expect(isLive(state({ phase: 'stopped' }))).to.equal(false);
    expect(isLive(state({ owner: nobody }))).to.equal(false);
    expect(isLive(state({ owner: { ...ownIdentity(), startedAt: 'another time' } }))).to.equal(false);
    expect(isLive(undefined)).to.equal(false);
  });
});

describe('children of an earlier start', () => {
  it('are told from strangers with the same pid, named in a warning and stopped', async () => {
    const left = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' });
    const stranger = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' });
    try {
      await Promise.all([once(left, 'spawn'), once(stranger, 'spawn')]);
      const identity = identifyProcess(left.pid ?? 0) ?? nobody;
      const earlier = state({
        owner: nobody,
        children: [
          { name: 'kafka-1', ...identity },
          { name: 'postgres', pid: stranger.pid ?? 0, startedAt: 'before the reboot' },
        ],
      });
      expect(staleChildren(earlier).map(({ name }) => name)).to.deep.equal(['kafka-1']);
      const { log, lines } = recordingLog();
      await stopStaleChildren(earlier, log);
      expect(isRunning(identity)).to.equal(false);
      expect(stranger.exitCode ?? stranger.signalCode).to.equal(null);
      expect(
        lines.map(({ level, msg }) => ({ level, named: msg.includes(`kafka-1 (pid ${left.pid})`) })),
      ).to.deep.equal([{ level: 40, named: true }]);
    } finally {
      const gone = [left, stranger].filter((child) => child.exitCode === null && child.signalCode === null);
      await Promise.all(gone.map((child) => Promise.all([once(child, 'exit'), child.kill('SIGKILL')])));
    }
  });
});
