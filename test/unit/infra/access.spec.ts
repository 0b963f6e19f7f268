import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { canEnter, canExecute, canRead, isAllowed } from '../../../src/infra/embedded/postgres/access.ts';

describe('file access of another user', () => {
  const stranger = { uid: 64_001, gid: 64_001 };
  const enter = 0o1;

  it('takes the class that fits first, as the kernel does', () => {
    const file = { uid: 1, gid: 2 };
    expect(isAllowed({ ...file, mode: 0o100 }, { uid: 1, gid: 9 }, enter)).to.equal(true);
    // The owner is refused although everybody else may enter.
    expect(isAllowed({ ...file, mode: 0o011 }, { uid: 1, gid: 2 }, enter)).to.equal(false);
    expect(isAllowed({ ...file, mode: 0o010 }, { uid: 9, gid: 2 }, enter)).to.equal(true);
    expect(isAllowed({ ...file, mode: 0o101 }, { uid: 9, gid: 2 }, enter)).to.equal(false);
    expect(isAllowed({ ...file, mode: 0o001 }, { uid: 9, gid: 9 }, enter)).to.equal(true);
    expect(isAllowed({ ...file, mode: 0o110 }, { uid: 9, gid: 9 }, enter)).to.equal(false);
    expect(isAllowed({ ...file, mode: 0o000 }, { uid: 0, gid: 0 }, enter)).to.equal(true);
  });

  describe('below a directory', () => {
    let top: string;
    let inner: string;

    beforeEach(() => {
      top = mkdtempSync(join(tmpdir(), 'millrace-access-'));
      inner = join(top, 'middle', 'inner');
      mkdirSync(inner, { recursive: true });
      for (const path of [top, join(top, 'middle'), inner]) chmodSync(path, 0o755);
    });
    afterEach(() => rmSync(top, { recursive: true, force: true }));

    it('is given when every directory above lets the user in', () => {
      expect(canEnter(inner, stranger)).to.equal(true);
    });

    it('is refused when one directory far above is private', () => {
      chmodSync(top, 0o700);
      expect(canEnter(inner, stranger)).to.equal(false);
      chmodSync(top, 0o710);
      if (process.getuid?.() === 0) {
        chownSync(top, 0, stranger.gid);
        expect(canEnter(inner, stranger)).to.equal(true);
      } else {
        expect(canEnter(inner, stranger)).to.equal(false);
      }
    });

    it('looks at a file itself as well', () => {
      const program = join(inner, 'program');
      writeFileSync(program, '');
      chmodSync(program, 0o744);
      expect([canRead(program, stranger), canExecute(program, stranger)]).to.deep.equal([true, false]);
      chmodSync(program, 0o700);
      expect([canRead(program, stranger), canExecute(program, stranger)]).to.deep.equal([false, false]);
      chmodSync(program, 0o755);
      expect([canRead(program, stranger), canExecute(program, stranger)]).to.deep.equal([true, true]);
    });
  });
});
