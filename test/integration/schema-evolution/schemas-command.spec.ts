import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { projectRoot } from '../../../src/project-root.ts';

/** The command line in a copy of the repository, where mistakes can be planted into schemas and code alike. */
describe('millrace schemas', function () {
  this.timeout(60_000);
  let dir: string;
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'millrace-copy-'));
    for (const part of ['src', 'avro', 'package.json']) {
      cpSync(join(projectRoot, part), join(dir, part), { recursive: true });
    }
    symlinkSync(join(projectRoot, 'node_modules'), join(dir, 'node_modules'));
  });
  afterEach(() => rmSync(dir, { recursive: true }));

  const run = (...args: readonly string[]) => {
    const { PATH = '', HOME = '' } = process.env;
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [join(dir, 'src/cli/millrace.ts'), 'schemas', ...args],
      { cwd: dir, env: { PATH, HOME }, encoding: 'utf8' },
    );
    return { code: status, stdout, stderr };
  };
  const replace = (file: string, from: string, to: string): void => {
    const text = readFileSync(join(dir, file), 'utf8');
    expect(text, file).to.include(from);
    writeFileSync(join(dir, file), text.replace(from, to));
  };
  const view = 'avro/product-viewed.v1.avsc';
  const oldEnd = '"default": null }\n';
  const addReferrer = (): void => {
    const field = '{ "name": "referrer", "doc": "Where from", "type": ["null", "string"], "default": null }';
    replace(view, oldEnd, `"default": null },\n    ${field}\n`);
  };

  it('check finds nothing in the repository as it is: 0', () => {
    const { code, stdout, stderr } = run('check', '--offline', '--released');
    expect(code, stdout + stderr).to.equal(0);
    expect(stdout).to.match(/^ok: 16 schemas/);
  });

  it('check tells what it finds, as text and as JSON: 3', () => {
    replace(view, '"name": "productId"', '"name": "product"');
    const text = run('check', '--offline');
    expect(text.code, text.stderr).to.equal(3);
    expect(text.stdout).to.match(/ProductViewedV1Envelope {2}data\.productId {2}field-removed/);
    const { findings } = JSON.parse(run('check', '--offline', '--json').stdout);
    expect(findings.map(({ rule }: { rule: string }) => rule)).to.have.members([
      'field-removed',
      'added-without-default',
    ]);
    // Whatever the policy lets pass, what is stored must stay readable.
    const lax = run('check', '--offline', '--policy', 'NONE');
    expect(lax.code).to.equal(3);
    expect(lax.stdout)
      .to.match(/golden-unreadable/)
      .and.not.match(/field-removed/);
    expect(run('check', '--offline', '--policy', 'SOMETIMES').code).to.equal(2);
  });

  it('check says why even of schemas that nothing could run with', () => {
    replace(view, '["null", "string"]', '["string", "null"]');
    const { code, stdout, stderr } = run('check', '--offline');
    expect(code, stderr).to.equal(3);
    expect(stdout).to.match(/userId {2}null-not-first/);
    writeFileSync(join(dir, view), '{');
    expect(run('check', '--offline')).to.include({ code: 3, stderr: '' });
  });

  it('check runs the golden events through the code: an upcaster that loses the price is caught', () => {
    replace('src/event-catalogue/upcasters.ts', 'amountMinor: priceMinor', 'amountMinor: 0');
    const { code, stdout, stderr } = run('check', '--offline');
    expect(code, stderr).to.equal(3);
    expect(stdout).to.match(/registered\.v1\/1-in-stock\.json {2}golden-envelope/);
    expect(stdout).to.match(/data\.price\.amountMinor is 0 instead of 1999/);
  });

  it('diff, release and check take an additive change from the first line to the history', () => {
    addReferrer();
    expect(run('diff').stdout).to.match(/data\.referrer +added +added as union of null and string/);
    expect(run('check', '--offline')).to.include({ code: 0 });

    const unfit = run('release');
    expect(unfit.code).to.equal(1);
    expect(unfit.stderr).to.match(/^millrace: The sample by-a-user does not fit.*Bring avro\/samples/);
    const samples = join(dir, 'avro/samples/product-viewed.v1.json');
    const withReferrer = readFileSync(samples, 'utf8').replaceAll(
      '"productId"',
      '"referrer": "search", "productId"',
    );
    writeFileSync(samples, withReferrer);

    expect(run('release', '--dry-run').stdout).to.match(/ProductViewedV1Envelope +2 /);
    expect(run('check', '--offline', '--released')).to.include({ code: 3 });
    expect(JSON.parse(run('release', '--json').stdout)).to.deep.equal({
      dryRun: false,
      releases: [
        {
          schema: 'loopers.product.ProductViewedV1Envelope',
          release: 2,
          golden: [
            'loopers.product.viewed.v1/2-by-a-user.json',
            'loopers.product.viewed.v1/2-by-nobody-known.json',
          ],
        },
      ],
    });
    expect(run('check', '--offline', '--released').stdout).to.match(
      /^ok: 16 schemas, 17 released versions, 33 pairs/,
    );
    expect(run('diff').stdout).to.equal('Every schema is as it was released.\n');
    expect(run('types').code).to.equal(0);
    expect(readFileSync(join(dir, 'src/avro/event-data.ts'), 'utf8')).to.include(
      'readonly referrer: string | null;',
    );
  });

  it('release refuses what the check refuses: 3', () => {
    replace(view, '"doc": "The product", ', '');
    const { code, stderr } = run('release');
    expect(code).to.equal(3);
    expect(stderr)
      .to.match(/productId {2}doc-missing/)
      .and.match(/Nothing is released/);
  });

  it('golden finds what comes out differently: 3; and takes it as expected when told to', () => {
    replace(
      'src/projections/product-statistic.ts',
      ".count(statistic, 'view_count'",
      ".count(statistic, 'like_count'",
    );
    const found = run('golden');
    expect(found.code, found.stderr).to.equal(3);
    expect(found.stdout)
      .to.match(/1-by-a-user\.json {2}golden-effects/)
      .and.match(/like_count/);
    expect(JSON.parse(run('golden', '--accept', '--json').stdout)).to.deep.include({ findings: [] });
  });
});
