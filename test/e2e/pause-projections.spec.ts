import { hostname, userInfo } from 'node:os';
import { expect } from 'chai';
import { Kafka, logLevel } from 'kafkajs';
import type { Database } from '../../src/postgres/database.ts';
import { type CliProcess, environmentOf, readyUrl, runCli, startCli } from '../support/cli.ts';
import { eventually } from '../support/eventually.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { auditRows } from '../support/outbox-admin.ts';
import { type Client, startTestApp } from '../support/running-app.ts';
import { expectExactModels, openShopLoad, type ShopLoad } from '../support/shop-load.ts';
import { useWorkspace, type Workspace } from '../support/stack.ts';

const patience = { timeoutMs: 120_000 };
const held = ['product-statistic', 'order-view'];

const saidOfPause =
  'The projection is paused: it reads and commits nothing until npx millrace topologies resume order-view';

interface Projector extends CliProcess {
  readonly url: string;
}

describe('millrace topologies pause and resume', function () {
  this.timeout(400_000);
  const workspace = useWorkspace();
  const who = `cli:${userInfo().username}@${hostname()}`;
  let space: Workspace;
  let db: Database;
  let client: Client;
  let load: ShopLoad;
  let projectors: Projector[];
  before(async () => {
    space = workspace();
    db = openTestDatabase(space);
    await startTestApp(space, 'relay');
    ({ client } = await startTestApp(space, 'api'));
    projectors = [await startProjector(), await startProjector()];
    load = await openShopLoad(client, 5);
    await load.send(60);
    await expectExactModels(db, load);
  });

  const startProjector = async (): Promise<Projector> => {
    const cli = startCli(['up', '--role', 'projector'], {
      ...environmentOf(space),
      MILLRACE_LOG_FORMAT: 'json',
      STREAMS_SESSION_TIMEOUT_MS: '15000',
      STREAMS_HEARTBEAT_INTERVAL_MS: '500',
      // Far less than the pauses below: whoever took them for stalls would start consumers anew.
      STREAMS_STALL_MS: '2000',
    });
    space.closeAtEnd(async () => {
      cli.child.kill('SIGKILL');
      await cli.ended;
    });
    return { ...cli, url: await readyUrl(cli, 120_000) };
  };
  const millrace = (...args: readonly string[]) =>
    runCli(['topologies', ...args], {
      ...environmentOf(space),
      KAFKA_BROKERS: '127.0.0.1:1',
      SCHEMA_REGISTRY_URL: 'http://127.0.0.1:1',
    });
  const json = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await millrace(...args, '--json');
    expect(code, stderr).to.equal(0);
    return JSON.parse(stdout);
  };

  /** All that a projection has committed, by whichever process. */
  const committedBy = async (projection: string) =>
    db.execute(
      {
        name: 'spec-committed-by',
        text: `select partition, commits from projection_task where projection = $1 order by version, partition`,
      },
      [projection],
    );
  const committedByHeld = () => Promise.all(held.map(committedBy));
  /** Until the projections that are not paused have everything. */
  const othersAreDone = () =>
    eventually(async () => {
      const status = await runCli(['status', '--json'], environmentOf(space));
      expect(status.code, status.stderr).to.equal(0);
      const { topics, relay } = JSON.parse(status.stdout);
      expect(relay.pending).to.equal(0);
      for (const { projection, topic, lag } of topics as { projection: string; topic: string; lag: number }[])
        if (!held.includes(projection)) expect(lag, `${projection} in ${topic}`).to.equal(0);
      return topics as { projection: string; lag: number }[];
    }, patience);
  const linesOf = ({ stderr }: CliProcess) =>
    stderr()
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as { level: number; msg: string; projection?: string });
  /** What it has said of its projection since the first word of a pause, of pauses and of stalls. */
  const saidOf = (projector: CliProcess, projection: string): readonly string[] => {
    const lines = linesOf(projector)
      .filter((line) => line.projection === projection && line.level >= 40)
      .map(({ msg }) => msg);
    const first = lines.findIndex((msg) => msg.startsWith('The projection is paused'));
    return first < 0 ? [] : lines.slice(first).filter((msg) => /pause|none arrive/.test(msg));
  };
  const gaugeOf = async ({ url }: Projector, projection: string): Promise<string | undefined> => {
    const text = await (await fetch(`${url}/metrics`)).text();
    return new RegExp(`^millrace_streams_paused\\{projection="${projection}"\\} (\\d)$`, 'm').exec(text)?.[1];
  };
  const membersOf = async (projection: string): Promise<readonly string[]> => {
    const admin = new Kafka({
      brokers: [...space.endpoints.kafkaBrokers],
      connectionTimeout: 30_000,
      logLevel: logLevel.NOTHING,
    }).admin();
    await admin.connect();
    try {
      const { groups } = await admin.describeGroups([space.unique(`millrace-${projection}`)]);
      const [group] = groups;
      expect(group?.state).to.equal('Stable');
      return (group?.members ?? []).map(({ memberId }) => memberId).toSorted();
    } finally {
      await admin.disconnect();
    }
  };

  it('hold projections of other processes still, and nothing else', async () => {
    const members = await eventually(async () => {
      const found = await membersOf(held[0] ?? '');
      expect(found).to.have.length(2);
      return found;
    }, patience);
    const tried = await millrace('pause', ...held, '--dry-run');
    expect(tried.stdout).to.equal('product-statistic would be paused.\norder-view would be paused.\n');
    const paused = await millrace('pause', ...held, '--reason', 'a bad release');
    expect(paused.code, paused.stderr).to.equal(0);
    expect(paused.stdout).to.match(
      /^product-statistic is paused\. Kafka keeps what waits for 7 days; let it go on before with npx millrace topologies resume product-statistic\.\norder-view is paused\./,
    );
    const before = await committedByHeld();

    await load.send(60);
    const topics = await othersAreDone();
    for (const projection of held)
      expect(topics.some((topic) => topic.projection === projection && topic.lag > 0)).to.equal(true);
    expect(await committedByHeld()).to.deep.equal(before);
    for (const projector of projectors)
      for (const [projection, gauge] of [...held.map((name) => [name, '1']), ['stock-level', '0']] as const)
        await eventually(
          async () => expect(await gaugeOf(projector, projection ?? '')).to.equal(gauge),
          patience,
        );
    expect(await membersOf(held[0] ?? '')).to.deep.equal(members);
    for (const projector of projectors) expect(saidOf(projector, 'order-view')).to.deep.equal([saidOfPause]);
  });

  it('are told to whoever asks: list, status, the API, and queries that wait', async () => {
    const listed = (await json('list')) as { name: string; state: string; pause: unknown }[];
    expect(listed.filter(({ state }) => state === 'paused').map(({ name }) => name)).to.deep.equal(held);
    expect(listed[0]?.pause).to.include({ by: who, because: 'a bad release' });
    expect((await millrace('list')).stdout).to.match(new RegExp(`^order-view +1 +paused by ${who} `, 'm'));
    const status = await runCli(['status'], environmentOf(space));
    expect(status.stdout).to.match(
      new RegExp(
        `^ {2}order-view: PAUSED .* ago by ${who}: a bad release\\. Let it go on with npx millrace topologies resume order-view$`,
        'm',
      ),
    );
    const { body } = await client.get('/admin/projections');
    const states = (body.projections as { name: string; state: string }[]).map(({ name, state }) => [
      name,
      state,
    ]);
    expect(states.filter(([, state]) => state === 'paused').map(([name]) => name)).to.deep.equal(held);

    const [productId, counts] = [...load.expected][0] ?? ['', { views: 0 }];
    const viewed = await client.post(`/v1/products/${productId}/views`, {});
    counts.views++;
    const answer = await client.get(`/v1/products/${productId}/statistic`, {
      'consistency-token': viewed.headers.get('consistency-token') ?? '',
      prefer: 'wait=1',
    });
    expect(answer.status).to.equal(503);
    expect(answer.body).to.include({ type: 'urn:millrace:problem:not-caught-up', missing: 1 });
    expect(answer.body.detail).to.match(
      /^product-statistic is paused by an operator since .* and has 0 of the 1/,
    );
    expect((await client.get(`/v1/products/${productId}/statistic`)).status).to.equal(200);
  });

  it('stay over a process that is killed and one that starts', async () => {
    const before = await committedByHeld();
    const [killed] = projectors;
    killed?.child.kill('SIGKILL');
    await killed?.ended;
    projectors = [...projectors.slice(1), await startProjector()];
    // The partitions of the one that is gone are taken over, by those who may.
    await load.send(20);
    await othersAreDone();
    expect(await committedByHeld()).to.deep.equal(before);
    const started = projectors.at(-1);
    if (!started) throw new Error('No projector');
    for (const projector of projectors) expect(saidOf(projector, 'order-view')).to.deep.equal([saidOfPause]);
    expect(await gaugeOf(started, 'order-view')).to.equal('1');
  });

  it('end where they began: everything that waited is applied, once', async () => {
    const resumed = await client.post('/admin/projections/order-view/resume');
    expect(resumed.status).to.equal(200);
    expect(resumed.body).to.have.nested.property('ended.because', 'a bad release');
    const all = await millrace('resume', '--all');
    expect(all.code, all.stderr).to.equal(0);
    expect(all.stdout)
      .to.match(
        new RegExp(`^product-statistic goes on\\. It was paused by ${who} at .*: a bad release\\.$`, 'm'),
      )
      .and.match(/^order-view was not paused\.$/m);
    await load.send(10);
    await expectExactModels(db, load);
    for (const projector of projectors)
      expect(saidOf(projector, 'order-view')).to.include('The projection goes on after its pause');
    const audited = (await auditRows(db)).map(({ action, target }) => `${action} ${target.projection}`);
    expect(audited).to.deep.equal([
      'projections.pause product-statistic',
      'projections.pause order-view',
      'projections.resume order-view',
      'projections.resume product-statistic',
    ]);
  });

  it('explain wrong usage, and change nothing then', async () => {
    const wrong = [
      ['pause'],
      ['pause', 'order-view', '--all'],
      ['pause', 'order-view', 'orders'],
      ['resume', 'orders'],
    ];
    const answers = await Promise.all(wrong.map((args) => millrace(...args)));
    for (const [index, { code, stdout, stderr }] of answers.entries()) {
      expect(code, `${wrong[index]?.join(' ')}: ${stderr}`).to.equal(2);
      expect(stdout).to.equal('');
    }
    expect(answers[2]?.stderr).to.contain(
      'There is no projection orders. It is one of product-statistic, product-trend,',
    );
    const listed = (await json('list')) as { state: string }[];
    expect(listed.every(({ state }) => state === 'active')).to.equal(true);
  });
});
