import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { expect } from 'chai';
import { chooseFreePorts } from '../../../src/infra/embedded/free-ports.ts';
import { attachInfrastructure, provideInfrastructure } from '../../../src/infra/provide-infrastructure.ts';
import { OperatorError } from '../../../src/operator-error.ts';
import { silentLog } from '../../support/silent-log.ts';
import { configFor } from './stack-settings.ts';

const listenOn = async (server: Server): Promise<number> => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
};

describe('servers that the environment names', () => {
  const anything = createServer((socket) => socket.on('error', () => undefined).resume());
  const registry = createHttpServer((request, response) => {
    response.statusCode =
      request.url === '/good/subjects' ? 200 : request.url === '/broken/subjects' ? 503 : 404;
    response.end('[]');
  });
  let named: Record<string, string>;
  let closedPort: number;

  const configWith = (change: Readonly<Record<string, string>>) =>
    configFor('/nonexistent/never-made', { MILLRACE_INFRA: 'external', ...named, ...change });
  const complaint = async (change: Readonly<Record<string, string>>): Promise<string> => {
    const error = await provideInfrastructure(configWith(change), { log: silentLog() }).catch(
      (reason: unknown) => reason,
    );
    if (!(error instanceof OperatorError)) expect.fail(`expected an OperatorError, got ${String(error)}`);
    return error.line;
  };

  before(async () => {
    const port = await listenOn(anything);
    const registryPort = await listenOn(registry);
    ({ closed: closedPort = 0 } = await chooseFreePorts(['closed'], {}));
    named = {
      DATABASE_URL: `postgres://someone:s3cret@127.0.0.1:${port}/db`,
      KAFKA_BROKERS: `127.0.0.1:${closedPort},127.0.0.1:${port}`,
      SCHEMA_REGISTRY_URL: `http://127.0.0.1:${registryPort}/good/`,
      REDIS_URL: `redis://127.0.0.1:${port}`,
    };
  });
  after(async () => {
    await Promise.all([anything, registry].map((server) => once(server.close(), 'close')));
  });

  it('are taken as they are; stopping leaves them alone', async () => {
    const config = configWith({});
    for (const access of [
      provideInfrastructure(config, { log: silentLog() }),
      attachInfrastructure(config),
    ]) {
      const { origin, endpoints, stop } = await access;
      await stop();
      expect({ origin, endpoints }).to.deep.equal({
        origin: 'external',
        endpoints: {
          databaseUrl: named.DATABASE_URL,
          kafkaBrokers: named.KAFKA_BROKERS?.split(','),
          schemaRegistryUrl: named.SCHEMA_REGISTRY_URL,
          redisUrl: named.REDIS_URL,
        },
      });
    }
  });

  it('that do not answer are named with variable, address and reason, and without the password', async () => {
    const line = await complaint({ DATABASE_URL: `postgres://someone:s3cret@127.0.0.1:${closedPort}/db` });
    expect(line).to.include(`DATABASE_URL names postgres://someone:********@127.0.0.1:${closedPort}/db`);
    expect(line)
      .to.match(/refused/)
      .and.not.include('s3cret');
  });

  it('are all looked at before anything is said', async () => {
    const line = await complaint({
      KAFKA_BROKERS: `127.0.0.1:${closedPort}`,
      SCHEMA_REGISTRY_URL: `http://127.0.0.1:${closedPort}`,
      REDIS_URL: `redis://127.0.0.1:${closedPort}`,
    });
    expect(line).to.match(/KAFKA_BROKERS names .*SCHEMA_REGISTRY_URL names .*REDIS_URL names /);
    expect(line).to.not.include('DATABASE_URL names').and.not.include('\n');
  });

  it('include a registry that is none, or is ill', async () => {
    const base = named.SCHEMA_REGISTRY_URL?.replace('/good/', '') ?? '';
    expect(await complaint({ SCHEMA_REGISTRY_URL: `${base}/elsewhere` })).to.match(
      /404.*not the base of a Confluent API/,
    );
    expect(await complaint({ SCHEMA_REGISTRY_URL: `${base}/broken` })).to.match(/status 503/);
  });

  it('time out instead of waiting for ever', async () => {
    const silent = createServer((socket) => socket.on('error', () => undefined).resume());
    const port = await listenOn(silent);
    try {
      const line = await complaint({
        SCHEMA_REGISTRY_URL: `http://127.0.0.1:${port}`,
        SCHEMA_REGISTRY_REQUEST_TIMEOUT_MS: '200',
      });
      expect(line).to.match(/no answer within 200 ms/);
    } finally {
      silent.close();
    }
  });

  it('can be Docker, which has to be there', async () => {
    const before = process.env.DOCKER_HOST;
    process.env.DOCKER_HOST = 'unix:///nonexistent/docker.sock';
    try {
      const config = configFor('/nonexistent/never-made', { MILLRACE_INFRA: 'docker' });
      const error = await provideInfrastructure(config, { log: silentLog() }).catch(
        (reason: unknown) => reason,
      );
      expect(error).to.be.instanceOf(OperatorError);
      expect((error as OperatorError).line).to.match(/no Docker daemon answers.*MILLRACE_INFRA=embedded/);
    } finally {
      if (before === undefined) delete process.env.DOCKER_HOST;
      else process.env.DOCKER_HOST = before;
    }
  });
});
