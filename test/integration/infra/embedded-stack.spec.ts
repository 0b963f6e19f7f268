import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { resetEmbedded } from '../../../src/infra/embedded/reset-embedded.ts';
import { readStackState } from '../../../src/infra/embedded/stack-state.ts';
import {
  attachInfrastructure,
  type ProvidedInfrastructure,
  provideInfrastructure,
} from '../../../src/infra/provide-infrastructure.ts';
import { OperatorError } from '../../../src/operator-error.ts';
import { eventually } from '../../support/eventually.ts';
import { silentLog } from '../../support/silent-log.ts';
import { processesOf } from './processes-of.ts';
import { brokerIds, pingRedis, query, registerSchema, subjects, withAdmin } from './stack-probes.ts';
import { configFor, temporaryDataDir } from './stack-settings.ts';

const rejection = async (work: Promise<unknown>): Promise<OperatorError> => {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof OperatorError)) expect.fail(`expected an OperatorError, got ${String(error)}`);
  return error;
};

describe('the embedded stack', function () {
  this.timeout(180_000);
  const dataDir = temporaryDataDir();
  const config = configFor(dataDir);
  const log = silentLog();
  let stack: ProvidedInfrastructure;

  before(async function () {
    // The first start on a machine downloads 170 MB.
    this.timeout(300_000);
    stack = await provideInfrastructure(config, { log });
  });
  after(async () => {
    await stack?.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  it('answers at every endpoint', async () => {
    const { databaseUrl, kafkaBrokers, schemaRegistryUrl, redisUrl } = stack.endpoints;
    const [settings] = await query(
      databaseUrl,
      `select current_setting('wal_level') as wal, current_setting('fsync') as fsync, pg_encoding_to_char(encoding)
         as encoding, current_setting('unix_socket_directories') as sockets
       from pg_database where datname = current_database()`,
    );
    expect(settings).to.deep.equal({ wal: 'logical', fsync: 'on', encoding: 'UTF8', sockets: '' });
    expect(await brokerIds(kafkaBrokers)).to.deep.equal([1]);
    expect(await subjects(schemaRegistryUrl)).to.be.an('array');
    expect(await pingRedis(redisUrl ?? '')).to.equal('PONG');
  });

  it('wants the password', async () => {
    const url = new URL(stack.endpoints.databaseUrl);
    url.password = 'guess';
    const error = await query(url.href, 'select 1').then(String, String);
    expect(error).to.match(/password authentication failed/);
    expect(statSync(join(dataDir, 'postgres-password')).mode & 0o777).to.equal(0o600);
  });

  it('shows no password in the arguments of its processes', () => {
    const password = readFileSync(join(dataDir, 'postgres-password'), 'utf8');
    const pids = processesOf(dataDir).map((line) => line.split(' ')[0]);
    expect(pids.length).to.be.greaterThan(4);
    for (const pid of pids) expect(readFileSync(`/proc/${pid}/cmdline`, 'utf8')).to.not.include(password);
  });

  it('is found by commands that look, and joined by a second start that then stops nothing', async () => {
    expect((await attachInfrastructure(config)).endpoints).to.deep.equal(stack.endpoints);
    const second = await provideInfrastructure(config, { log });
    expect(second.endpoints).to.deep.equal(stack.endpoints);
    expect(second.servers.size).to.equal(0);
    await second.stop();
    expect(await query(stack.endpoints.databaseUrl, 'select 1 as one')).to.deep.equal([{ one: 1 }]);
  });

  it('cannot be joined with other settings, nor reset while it runs', async () => {
    const three = configFor(dataDir, { MILLRACE_BROKERS: '3' });
    const mismatch = await rejection(provideInfrastructure(three, { log }));
    expect(mismatch.message).to.match(/MILLRACE_BROKERS=1, not 3/);
    const refusal = await rejection(resetEmbedded(config, { log }));
    expect(refusal.message).to.include(`Process ${process.pid} runs servers`);
    expect(existsSync(join(dataDir, 'postgres'))).to.equal(true);
  });

  it('gets another watchdog when its watchdog is killed', async () => {
    const watchdogPid = () =>
      readStackState(join(dataDir, 'stack.json'))?.children.find(({ name }) => name === 'watchdog')?.pid ?? 0;
    const first = watchdogPid();
    process.kill(first, 'SIGKILL');
    await eventually(() => expect(watchdogPid()).to.not.equal(first).and.not.equal(0));
    expect(() => process.kill(watchdogPid(), 0)).to.not.throw();
  });

  it('leaves no process when it is stopped, and keeps its data for the next start', async () => {
    await query(stack.endpoints.databaseUrl, 'create table kept (id int)');
    await withAdmin(stack.endpoints.kafkaBrokers, (admin) =>
      admin.createTopics({ topics: [{ topic: 'kept', numPartitions: 2 }] }),
    );
    await registerSchema(stack.endpoints.schemaRegistryUrl, 'kept-value');

    await stack.stop();
    await stack.stop();
    expect(processesOf(dataDir)).to.deep.equal([]);
    expect((await rejection(attachInfrastructure(config))).line).to.match(/Nothing is running.*npm start/);

    stack = await provideInfrastructure(config, { log });
    const { databaseUrl, kafkaBrokers, schemaRegistryUrl } = stack.endpoints;
    expect(await query(databaseUrl, 'select count(*)::int as rows from kept')).to.deep.equal([{ rows: 0 }]);
    expect(await withAdmin(kafkaBrokers, (admin) => admin.listTopics())).to.include('kept');
    expect(await subjects(schemaRegistryUrl)).to.deep.equal(['kept-value']);
  });

  it('tells when a server dies, and which', async () => {
    process.kill(stack.servers.get('redis')?.pid ?? 0, 'SIGKILL');
    const error = await stack.failed;
    expect(error).to.be.instanceOf(OperatorError);
    expect(error.message).to.match(/^Redis stopped unexpectedly \(signal SIGKILL\).*logs\/redis\.log/);
  });

  it('is removed by a reset, which touches no other directory', async () => {
    await stack.stop();
    const other = join(dataDir, 'other');
    mkdirSync(other);
    writeFileSync(join(other, 'precious'), '');
    expect((await rejection(resetEmbedded(configFor(other), { log }))).message).to.match(
      /not a Millrace data/,
    );
    expect(existsSync(join(other, 'precious'))).to.equal(true);
    rmSync(other, { recursive: true });

    expect(await resetEmbedded(config, { log, dryRun: true })).to.deep.equal([dataDir]);
    expect(existsSync(join(dataDir, 'postgres'))).to.equal(true);
    expect(await resetEmbedded(config, { log })).to.deep.equal([dataDir]);
    expect(existsSync(dataDir)).to.equal(false);
    await eventually(() => expect(processesOf(dataDir)).to.deep.equal([]));
  });
});
