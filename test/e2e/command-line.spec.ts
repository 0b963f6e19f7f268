import { createServer } from 'node:net';
import { expect } from 'chai';
import { environmentOf, readyUrl, runCli, startCli } from '../support/cli.ts';
import { eventually } from '../support/eventually.ts';
import { startOldPostgres } from '../support/old-postgres.ts';
import { clientOf } from '../support/running-app.ts';
import { useWorkspace } from '../support/stack.ts';

const lines = (text: string): readonly string[] => text.trim().split('\n');

describe('millrace up, on servers that run already', function () {
  this.timeout(240_000);
  const workspace = useWorkspace();

  it('says where it is, counts a view, shows the pipeline, and stops on Ctrl-C', async () => {
    const env = environmentOf(workspace());
    const cli = startCli(['up'], env);
    const client = clientOf(await readyUrl(cli));
    const product = { productId: 'p-1', name: 'Mill', priceMinor: 100, currency: 'EUR', stock: 1 };
    await client.post('/v1/products', product);
    await client.post('/v1/products/p-1/views');
    await eventually(async () => {
      expect((await client.get('/v1/products/p-1/statistic')).body.viewCount).to.equal(1);
    });

    // The statistic is there; other projections may take a moment longer.
    const status = await eventually(
      async () => {
        const json = await runCli(['status', '--json'], env);
        expect(json.code, json.stderr).to.equal(0);
        const found = JSON.parse(json.stdout);
        expect(found.topics.filter(({ lag }: { lag: number }) => lag !== 0)).to.deep.equal([]);
        return found;
      },
      { timeoutMs: 60_000 },
    );
    expect(status.outbox.rows).to.equal(2);
    expect(status.relay.pending).to.equal(0);
    expect(status.topics.length).to.be.at.least(10);
    expect(status.readModels).to.have.nested.property('[0].rows', 1);
    const picture = await runCli(['status'], env);
    expect(picture.stdout)
      .to.match(/2 rows/)
      .and.match(/nothing pending/)
      .and.match(/product_statistic +1 rows/);

    cli.child.kill('SIGINT');
    expect(await cli.ended, cli.stderr()).to.equal(0);
    expect(lines(cli.stdout()), 'standard output').to.have.length(1);
  });

  it('shares the work between processes of one role each', async () => {
    const env = environmentOf(workspace());
    const roles = ['api', 'relay', 'projector'].map((role) => startCli(['up', '--role', role], env));
    const [api] = await Promise.all(roles.map((cli) => readyUrl(cli)));
    const client = clientOf(api ?? '');
    const product = { productId: 'p-2', name: 'Mill', priceMinor: 100, currency: 'EUR', stock: 1 };
    await client.post('/v1/products', product);
    await client.post('/v1/products/p-2/views');
    await eventually(async () => {
      expect((await client.get('/v1/products/p-2/statistic')).body.viewCount).to.equal(1);
    });
    for (const cli of roles) cli.child.kill('SIGTERM');
    expect(await Promise.all(roles.map((cli) => cli.ended))).to.deep.equal([0, 0, 0]);
  });

  it('prepares the servers step by step, each step harmless to repeat', async () => {
    const env = environmentOf(workspace());
    const migrated = await runCli(['migrate', '--json'], env);
    expect(JSON.parse(migrated.stdout)).to.deep.equal({ applied: [] });

    const fresh = { ...env, TOPIC_PREFIX: workspace().unique('fresh.') };
    const planned = await runCli(['topics', 'apply', '--dry-run', '--json'], fresh);
    const changes = (output: string) =>
      JSON.parse(output).topics.map(({ change }: { change: string }) => change);
    expect(new Set(changes(planned.stdout))).to.deep.equal(new Set(['created']));
    const applied = await runCli(['topics', 'apply', '--json'], fresh);
    expect(new Set(changes(applied.stdout))).to.deep.equal(new Set(['created']));
    const raised = { ...fresh, TOPIC_RETENTION_MS: '3600000', TOPIC_PARTITIONS: '4' };
    const details = async () =>
      JSON.parse((await runCli(['topics', 'apply', '--json'], raised)).stdout).topics;
    const pending = { topic: `${fresh.TOPIC_PREFIX}order-events`, change: 'partitions pending' };
    const addThem = '3 of 4 partitions; add them with npx millrace topics add-partitions';
    expect(await details()).to.deep.include({
      ...pending,
      detail: `${addThem}; retention 604800000 → 3600000 ms, in-sync 1 → 1`,
    });
    expect(await details()).to.deep.include({ ...pending, detail: addThem });

    const ids = async () => JSON.parse((await runCli(['schemas', 'register', '--json'], env)).stdout);
    expect(await ids()).to.deep.equal(await ids());
  });
});

describe('millrace, given something it cannot work with', function () {
  this.timeout(180_000);

  /** One line that says what and what to do, and nothing on standard output. */
  const complaint = async (
    args: readonly string[],
    env: Record<string, string>,
    exitCode: number,
  ): Promise<string> => {
    const { code, stdout, stderr } = await runCli(args, env);
    expect(code, stderr).to.equal(exitCode);
    expect(stdout).to.equal('');
    expect(lines(stderr), stderr).to.have.length(1);
    return stderr;
  };
  const unreachable = {
    DATABASE_URL: 'postgres://u:s3cret@127.0.0.1:1/db',
    KAFKA_BROKERS: '127.0.0.1:1',
    SCHEMA_REGISTRY_URL: 'http://127.0.0.1:1/apis/ccompat/v7',
  };

  it('names an unknown setting and the one that was probably meant', async () => {
    expect(await complaint(['up'], { MILLRACE_ROLES: 'api' }, 2)).to.match(
      /MILLRACE_ROLES is not a setting \(did you mean MILLRACE_ROLE\?\)/,
    );
  });

  it('names a wrong value and what is allowed', async () => {
    expect(await complaint(['up'], { PORT: 'http' }, 2)).to.match(/PORT is http, allowed is a whole number/);
  });

  it('names a server that cannot be reached, without its password', async () => {
    const line = await complaint(['up'], { ...unreachable, PORT: '0' }, 1);
    expect(line)
      .to.match(/DATABASE_URL/)
      .and.not.match(/s3cret/);
  });

  it('names the URLs that are missing', async () => {
    expect(await complaint(['up'], { MILLRACE_INFRA: 'external', PORT: '0' }, 2)).to.match(
      /DATABASE_URL.*KAFKA_BROKERS.*SCHEMA_REGISTRY_URL/,
    );
  });

  it('says that a port is in use before it starts anything', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const { port } = taken.address() as { port: number };
    try {
      expect(await complaint(['up'], { PORT: String(port) }, 1)).to.match(/is in use.*PORT/);
    } finally {
      await new Promise((resolve) => taken.close(resolve));
    }
  });

  it('says that nothing is running when there is nothing to look at', async () => {
    const line = await complaint(['status'], { MILLRACE_DATA_DIR: '/tmp/millrace-nowhere' }, 1);
    expect(line).to.match(/Nothing is running.*npm start/);
  });

  it('explains wrong usage', async () => {
    for (const args of [['up', '--rolle', 'api'], ['up', '--role', 'boss'], ['dance'], ['topics', 'drop']]) {
      const { code, stderr } = await runCli(args);
      expect(code, stderr).to.equal(2);
      expect(stderr).to.match(/error: |Usage: /);
    }
  });

  it('prints its help and its settings', async () => {
    expect((await runCli(['--help'])).stdout).to.match(/Usage: millrace/);
    const { stdout, code } = await runCli(['config'], { DATABASE_URL: 'postgres://u:s3cret@h/db' });
    expect(code).to.equal(0);
    expect(stdout)
      .to.match(/DATABASE_URL +postgres:\/\/u:\*+@h\/db +env/)
      .and.match(/RELAY_BATCH_SIZE_MAX +2000 +default/);
    expect(JSON.parse((await runCli(['config', '--json'])).stdout)).to.be.an('array');
  });
});

describe('millrace, on a PostgreSQL that is too old', function () {
  this.timeout(180_000);
  const workspace = useWorkspace();

  it('says so and does not start', async () => {
    const old = await startOldPostgres();
    try {
      const { code, stderr } = await runCli(['up'], { ...environmentOf(workspace()), DATABASE_URL: old.url });
      expect(code, stderr).to.equal(1);
      expect(stderr).to.match(/PostgreSQL 13\.4 is not supported.*14 or newer/);
    } finally {
      await old.close();
    }
  });
});
