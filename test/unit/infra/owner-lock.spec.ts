import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { tryOwnerLock } from '../../../src/infra/embedded/owner-lock.ts';

const module = new URL('../../../src/infra/embedded/owner-lock.ts', import.meta.url).href;

describe('the lock of a data directory', () => {
  let folder: string;
  let path: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-lock-'));
    path = join(folder, 'owner.lock');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('has one holder at a time, also within one process', () => {
    const first = tryOwnerLock(path);
    expect(first).to.not.equal(undefined);
    expect(tryOwnerLock(path)).to.equal(undefined);
    first?.release();
    first?.release();
    const next = tryOwnerLock(path);
    expect(next).to.not.equal(undefined);
    next?.release();
  });

  it('goes to exactly one of many processes that ask at once, and is free after a SIGKILL', async () => {
    const script = `
      const { tryOwnerLock } = await import(${JSON.stringify(module)});
      globalThis.lock = tryOwnerLock(${JSON.stringify(path)});
      process.stdout.write(globalThis.lock ? 'y' : 'n');
      setInterval(() => undefined, 1000);`;
    const contenders = Array.from({ length: 4 }, () =>
      spawn(process.execPath, ['--input-type=module', '-e', script], {
        stdio: ['ignore', 'pipe', 'inherit'],
      }),
    );
    try {
      const answers = await Promise.all(
        contenders.map(async ({ stdout }) => String((await once(stdout, 'data'))[0])),
      );
      expect(answers.toSorted()).to.deep.equal(['n', 'n', 'n', 'y']);
      expect(tryOwnerLock(path)).to.equal(undefined);
      const holder = contenders[answers.indexOf('y')];
      await Promise.all([holder && once(holder, 'exit'), holder?.kill('SIGKILL')]);
      const lock = tryOwnerLock(path);
      expect(lock).to.not.equal(undefined);
      lock?.release();
    } finally {
      const left = contenders.filter((child) => child.exitCode === null && child.signalCode === null);
      await Promise.all(left.map((child) => Promise.all([once(child, 'exit'), child.kill('SIGKILL')])));
    }
  });
});
