import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import { loadConfig, maskPassword } from '../../../src/config/load-config.ts';
import { relayProfileNames } from '../../../src/config/relay-profiles.ts';
import { OperatorError } from '../../../src/operator-error.ts';

describe('loadConfig', () => {
  let dir: string;
  let envFile: string;
  before(() => {
    dir = mkdtempSync(join(tmpdir(), 'millrace-config-'));
    envFile = join(dir, '.env');
  });
  after(() => rmSync(dir, { recursive: true }));
  beforeEach(() => rmSync(envFile, { force: true }));

  const complaintAbout = (env: Record<string, string>): string => {
    try {
      loadConfig({ env, envFile });
    } catch (error) {
      expect(error).to.be.instanceOf(OperatorError);
      expect((error as OperatorError).exitCode).to.equal(2);
      return (error as OperatorError).line;
    }
    throw new Error('The settings were accepted');
  };

  it('has the figures of the specification as defaults', () => {
    const { config } = loadConfig({ env: {}, envFile });
    expect(config.http).to.include({ host: '127.0.0.1', port: 8080 });
    expect(config.relay).to.include({
      pollIntervalMs: 500,
      batchSizeMax: 2000,
      publishTimeoutMs: 30_000,
      leaseMs: 30_000,
    });
    expect(config.kafka).to.include({
      retriesMax: 3,
      retryDelayMs: 1000,
      requestTimeoutMs: 30_000,
      inFlightMax: 5,
    });
    expect(config.streams).to.include({
      sessionTimeoutMs: 30_000,
      heartbeatIntervalMs: 10_000,
      startFrom: 'earliest',
    });
    expect(config.topics).to.include({
      partitions: 3,
      retentionMs: 604_800_000,
      dlqRetentionMs: 2_592_000_000,
    });
  });

  it('prefers the environment over the file over the default, and says which it was', () => {
    writeFileSync(envFile, 'PORT=1111\nHOST=0.0.0.0\n');
    const { config, report } = loadConfig({ env: { PORT: '2222' }, envFile });
    expect(config.http).to.include({ port: 2222, host: '0.0.0.0' });
    const origins = Object.fromEntries(report.map(({ variable, origin }) => [variable, origin]));
    expect(origins).to.include({ PORT: 'env', HOST: 'file', RELAY_BATCH_SIZE_MAX: 'default' });
  });

  it('takes the settings of a profile unless they are given by themselves', () => {
    const env = { RELAY_PROFILE: 'order-service', RELAY_BATCH_SIZE_MAX: '77' };
    const { config, report } = loadConfig({ env, envFile });
    expect(config.relay).to.include({
      pollIntervalMs: 5000,
      batchSizeMax: 77,
      retriesMax: 5,
      leaseMs: 30_000,
    });
    const origins = Object.fromEntries(report.map(({ variable, origin }) => [variable, origin]));
    expect(origins).to.include({
      RELAY_POLL_INTERVAL_MS: 'profile',
      RELAY_BATCH_SIZE_MAX: 'env',
      RELAY_LEASE_MS: 'default',
    });
    expect(complaintAbout({ RELAY_PROFILE: 'hasty' })).to.match(
      /RELAY_PROFILE is hasty, allowed is one of commerce, order-service/,
    );
  });

  it('has no profile that a setting would refuse', () => {
    for (const name of relayProfileNames) {
      expect(() => loadConfig({ env: { RELAY_PROFILE: name }, envFile })).not.to.throw();
    }
  });

  it('is frozen', () => {
    const { config } = loadConfig({ env: {}, envFile });
    expect(() => Object.assign(config.http, { port: 1 })).to.throw(TypeError);
    expect(() => Object.assign(config, { http: {} })).to.throw(TypeError);
  });

  it('takes an empty variable for one that is not given', () => {
    expect(loadConfig({ env: { PORT: '' }, envFile }).config.http.port).to.equal(8080);
  });

  it('names the variable, the value and what is allowed', () => {
    expect(complaintAbout({ PORT: '80a' })).to.match(
      /PORT is 80a, allowed is a whole number from 0 to 65535/,
    );
    expect(complaintAbout({ MILLRACE_BROKERS: '2' })).to.match(
      /MILLRACE_BROKERS is 2, allowed is one of 1, 3/,
    );
    expect(complaintAbout({ MILLRACE_INFRA: 'podman' })).to.match(/one of auto, embedded, docker, external/);
    expect(complaintAbout({ KAFKA_BROKERS: 'localhost' })).to.match(/host:port/);
  });

  it('does not take a number of retries with which nothing could be published', () => {
    expect(complaintAbout({ KAFKA_RETRIES_MAX: '0' })).to.match(/a whole number from 1 to 100/);
  });

  it('reports every mistake at once', () => {
    const line = complaintAbout({ PORT: '-1', RELAY_BATCH_SIZE_MAX: '0' });
    expect(line)
      .to.match(/PORT/)
      .and.match(/RELAY_BATCH_SIZE_MAX/);
  });

  it('refuses a name it does not know, with the nearest one that it does', () => {
    expect(complaintAbout({ MILLRACE_BROKER: '3' })).to.match(/did you mean MILLRACE_BROKERS\?/);
    writeFileSync(envFile, 'DATABSE_URL=postgres://x/y\n');
    expect(complaintAbout({})).to.match(/DATABSE_URL is not a setting \(did you mean DATABASE_URL\?\)/);
  });

  it('leaves the variables of other programs alone', () => {
    expect(() => loadConfig({ env: { PATH: '/bin', KAFKA_HEAP_OPTS: '-Xmx1g' }, envFile })).not.to.throw();
  });

  it('masks passwords wherever it shows a value, also a wrong one', () => {
    const { report } = loadConfig({ env: { DATABASE_URL: 'postgres://app:s3cret@db/app' }, envFile });
    expect(report.find(({ variable }) => variable === 'DATABASE_URL')?.shown).to.equal(
      'postgres://app:********@db/app',
    );
    expect(complaintAbout({ DATABASE_URL: 'mysql://app:s3cret@db/app' })).not.to.include('s3cret');
  });

  it('never shows a password, whatever it is made of', () => {
    const password = fc.stringMatching(/^[A-Za-z0-9!$&'()*+,;=._~@:-]{4,20}$/);
    fc.assert(
      fc.property(password, (secret) => {
        expect(maskPassword(`postgres://user:${secret}@host/db`)).to.equal(
          'postgres://user:********@host/db',
        );
      }),
    );
  });

  it('accepts every whole number within its bounds and none outside', () => {
    fc.assert(
      fc.property(fc.integer({ min: -100_000, max: 200_000 }), (port) => {
        const load = () => loadConfig({ env: { PORT: String(port) }, envFile }).config.http.port;
        if (port >= 0 && port <= 65_535) expect(load()).to.equal(port);
        else expect(load).to.throw(OperatorError);
      }),
    );
  });
});
