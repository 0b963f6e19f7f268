import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect } from 'chai';
import { projectRoot } from '../../src/project-root.ts';

describe('a test run', () => {
  it('fails when a spec leaves a handle behind, and says which', function () {
    this.timeout(20_000);
    const mocha = join(projectRoot, 'node_modules/mocha/bin/mocha.js');
    const fixture = join(projectRoot, 'test/support/fixtures/leaky.fixture.ts');
    const { TEST_COUNTS_FILE: _, ...env } = process.env;
    const run = spawnSync(process.execPath, [mocha, fixture], { cwd: projectRoot, env, encoding: 'utf8' });
    expect(run.stdout).to.match(/1 passing/);
    expect(run.stderr).to.match(/Leaked handles: Timeout/);
    expect(run.status).not.to.equal(0);
  });
});
