import { spawnSync } from 'node:child_process';
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { parseLetter } from '../../../src/outbox-admin/parse-letter.ts';
import { projectRoot } from '../../../src/project-root.ts';

const keeper = join(projectRoot, 'test/support/fixtures/keep-dead-letters.ts');

describe('the backup file of dead letters', function () {
  this.timeout(60_000);
  let directory: string;
  let backupFile: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'millrace-letters-'));
    backupFile = join(directory, 'dead-letters.jsonl');
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  /** The system lets the process write so much into a file and no more, first short and then not at all, as a full disk does. */
  const keep = (payloadSizes: readonly number[], fileKilobytesMax?: number) => {
    const limit = fileKilobytesMax === undefined ? '' : `trap '' XFSZ; ulimit -f ${fileKilobytesMax};`;
    const args = [keeper, backupFile, ...payloadSizes.map(String)];
    const run = spawnSync('bash', ['-c', `${limit} exec "$@"`, 'keep', process.execPath, ...args], {
      encoding: 'utf8',
    });
    if (run.status !== 0) throw new Error(run.stderr);
    return JSON.parse(run.stdout);
  };
  const lines = (): readonly string[] => readFileSync(backupFile, 'utf8').split('\n').slice(0, -1);
  const idsOf = (letters: readonly string[]): readonly unknown[] =>
    letters.map((line) => {
      const letter = parseLetter(line);
      return 'row' in letter ? letter.row.id : letter.problem;
    });

  it('counts a letter as kept only when all of it is written, and keeps no part of another', () => {
    const told = keep([3000, 3000, 3000, 100], 8);
    expect(told.counts).to.deep.equal({ stored: 0, backedUp: 2, onlyAlerted: 2 });
    expect(told.alerted).to.deep.equal([2, 3]);
    expect(idsOf(lines())).to.deep.equal([1, 4]);
    expect(readFileSync(backupFile, 'utf8').endsWith('\n')).to.equal(true);

    expect(keep([3000, 3000]).counts).to.deep.equal({ stored: 0, backedUp: 2, onlyAlerted: 0 });
    expect(idsOf(lines()), 'when there is room again').to.deep.equal([1, 4, 1, 2]);
  });

  it('begins a line of its own behind one that a process which ended did not finish', () => {
    keep([100]);
    appendFileSync(backupFile, '{"id":7,"eventId":"01');
    keep([100]);
    expect(idsOf(lines())).to.deep.equal([1, 'It is not JSON', 1]);
  });
});
