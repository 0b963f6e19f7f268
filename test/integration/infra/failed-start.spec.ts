import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { readStackState } from '../../../src/infra/embedded/stack-state.ts';
import { provideInfrastructure } from '../../../src/infra/provide-infrastructure.ts';
import { OperatorError } from '../../../src/operator-error.ts';
import { eventually } from '../../support/eventually.ts';
import { silentLog } from '../../support/silent-log.ts';
import { OwnerProcess } from './owner-process.ts';
import { processesOf } from './processes-of.ts';
import { configFor, settingsFor, temporaryDataDir } from './stack-settings.ts';

describe('a start that fails', function () {
  this.timeout(180_000);
  const dataDir = temporaryDataDir();
  const owners: OwnerProcess[] = [];

  const start = (more: Readonly<Record<string, string>> = {}): OwnerProcess => {
    const owner = new OwnerProcess(settingsFor(dataDir, more));
    owners.push(owner);
    return owner;
  };
  const childPid = (name: string): Promise<number> =>
    eventually(() => {
      const child = readStackState(join(dataDir, 'stack.json'))?.children.find((one) => one.name === name);
      return child?.pid ?? expect.fail(`${name} is not there yet`);
    });
  const expectFailure = async (owner: OwnerProcess, line: RegExp): Promise<void> => {
    const end = await owner.exited();
    expect(end.code, end.line).to.equal(1);
    expect(end.line).to.match(line).and.not.include('\n');
    expect(processesOf(dataDir)).to.deep.equal([]);
  };
  /** Damages a file for one start and puts it back, so that the next test finds a sound directory. */
  const withDamaged = async (path: string, damage: () => void, work: () => Promise<void>): Promise<void> => {
    const sound = readFileSync(path);
    damage();
    try {
      await work();
    } finally {
      writeFileSync(path, sound);
    }
  };

  after(async () => {
    for (const owner of owners) await owner.end();
    await eventually(() => expect(processesOf(dataDir)).to.deep.equal([]));
    rmSync(dataDir, { recursive: true, force: true });
  });

  it('by Ctrl-C in the middle of it leaves nothing', async () => {
    const owner = start();
    await Promise.all([childPid('kafka-1'), childPid('postgres')]);
    const end = await owner.signal('SIGINT');
    expect(end.code).to.equal(130);
    expect(end.line).to.match(/interrupted/);
    expect(processesOf(dataDir)).to.deep.equal([]);
  });

  it('by a broker that dies tells which, and where its log is', async () => {
    const owner = start();
    process.kill(await childPid('kafka-1'), 'SIGKILL');
    await expectFailure(
      owner,
      /^Kafka broker 1 stopped while starting \(signal SIGKILL\).*logs\/kafka-1\.log.*npm run reset/,
    );
  });

  it('by a PostgreSQL directory without its version file leads to the reset', async () => {
    const version = join(dataDir, 'postgres', 'PG_VERSION');
    await withDamaged(
      version,
      () => rmSync(version),
      () =>
        expectFailure(start(), /^PostgreSQL stopped while starting .*FATAL.*not a valid data.*npm run reset/),
    );
  });

  it('by a PostgreSQL configuration that is garbage leads to the reset', async () => {
    const configuration = join(dataDir, 'postgres', 'postgresql.conf');
    await withDamaged(
      configuration,
      () => writeFileSync(configuration, 'no such thing as\u0000this\n'),
      () =>
        expectFailure(
          start(),
          /^PostgreSQL stopped while starting .*FATAL.*configuration file.*npm run reset/,
        ),
    );
  });

  it('by a Kafka meta.properties that is garbage leads to the reset', async () => {
    const meta = join(dataDir, 'kafka', 'broker-1', 'meta.properties');
    await withDamaged(
      meta,
      () => writeFileSync(meta, 'garbage'),
      () =>
        expectFailure(
          start(),
          /^Kafka broker 1 stopped while starting .*node ID not found in .*broker-1.*npm run reset/,
        ),
    );
  });

  it('by another number of brokers than the data has says so', async () => {
    await expectFailure(start({ MILLRACE_BROKERS: '3' }), /MILLRACE_BROKERS is 3, but .* made with 1/);
  });

  it('for want of Java names all there is to do, in one line', async () => {
    const config = configFor(dataDir);
    const env = { PATH: '/nonexistent' };
    const error = await provideInfrastructure(config, { log: silentLog(), env }).then(
      () => expect.fail('it started without Java'),
      (reason: unknown) => reason as OperatorError,
    );
    expect(error).to.be.instanceOf(OperatorError);
    expect(error.line)
      .to.match(/Java 17 or newer/)
      .and.match(/apt-get install openjdk-17-jre-headless/)
      .and.match(/brew install/)
      .and.match(/MILLRACE_INFRA=docker/)
      .and.match(/DATABASE_URL, KAFKA_BROKERS, SCHEMA_REGISTRY_URL and REDIS_URL/)
      .and.not.match(/Maven/);
    const nothingCached = configFor(dataDir, { MILLRACE_CACHE_DIR: join(dataDir, 'no-cache') });
    const both = await provideInfrastructure(nothingCached, { log: silentLog(), env }).catch(
      (reason: unknown) => reason as OperatorError,
    );
    expect((both as OperatorError).line).to.match(/Java 17 .* and Maven/);
    expect(processesOf(dataDir)).to.deep.equal([]);
  });
});
