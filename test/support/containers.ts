import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  GenericContainer,
  Network,
  type StartedNetwork,
  type StartedTestContainer,
  Wait,
} from 'testcontainers';
import { parse } from 'yaml';
import type { DockerProvider } from '../../src/infra/docker/docker-provider.ts';
import { chooseFreePorts } from '../../src/infra/embedded/free-ports.ts';
import type { Endpoints, Infrastructure } from '../../src/infra/infrastructure.ts';
import { OperatorError } from '../../src/operator-error.ts';
import { projectRoot } from '../../src/project-root.ts';

interface Images {
  readonly postgres: string;
  readonly kafka: string;
  readonly registry: string;
  readonly redis: string;
}

/** The versions that production's compose file names, so that tests cannot drift away from them. */
export const composeImages = (): Images => {
  const file = readFileSync(join(projectRoot, 'docker-compose.yml'), 'utf8');
  return (parse(file, { merge: true }) as { 'x-images': Images })['x-images'];
};

/** MILLRACE_INFRA=docker in tests: containers of their own on free ports, gone when the run ends. */
export const testcontainers: DockerProvider = {
  start: async ({ report }) => {
    const started: Stoppable[] = [];
    const stop = async (): Promise<void> => {
      for (let one = started.pop(); one; one = started.pop()) await one.stop();
    };
    try {
      report({ subject: 'Docker', state: 'running', text: 'starting containers' });
      const endpoints = await startContainers(composeImages(), started);
      report({ subject: 'Docker', state: 'done', text: 'ready', fraction: 1 });
      return infrastructure(endpoints, stop);
    } catch (cause) {
      await stop();
      throw new OperatorError(`The containers for the tests cannot be started: ${(cause as Error).message}`, {
        remedy: 'Start Docker, or run the tests on the embedded servers without MILLRACE_INFRA=docker',
        cause,
      });
    }
  },
  findRunning: () => Promise.resolve(undefined),
};

interface Stoppable {
  stop(): Promise<unknown>;
}

const infrastructure = (endpoints: Endpoints, stop: () => Promise<void>): Infrastructure => ({
  origin: 'docker',
  endpoints,
  failed: new Promise<never>(() => undefined),
  stop,
});

const startContainers = async (images: Images, started: Stoppable[]): Promise<Endpoints> => {
  const track = async <T extends Stoppable>(starting: Promise<T>): Promise<T> => {
    const container = await starting;
    started.push(container);
    return container;
  };
  const network = await track(new Network().start());
  const [postgres, broker, redis] = await Promise.all([
    track(startPostgres(images.postgres, network)),
    startKafka(images.kafka, track),
    track(new GenericContainer(images.redis).withExposedPorts(6379).start()),
  ]);
  const registry = await track(startRegistry(images.registry, network));
  return {
    databaseUrl: `postgres://millrace:millrace@${addressOf(postgres, 5432)}/millrace`,
    kafkaBrokers: [broker],
    schemaRegistryUrl: `http://${addressOf(registry, 8080)}/apis/ccompat/v7`,
    redisUrl: `redis://${addressOf(redis, 6379)}`,
  };
};

const addressOf = (container: StartedTestContainer, port: number): string =>
  `${container.getHost()}:${container.getMappedPort(port)}`;

const startPostgres = (image: string, network: StartedNetwork): Promise<StartedTestContainer> =>
  new GenericContainer(image)
    .withNetwork(network)
    .withNetworkAliases('postgres')
    .withExposedPorts(5432)
    .withEnvironment({ POSTGRES_USER: 'millrace', POSTGRES_PASSWORD: 'millrace', POSTGRES_DB: 'millrace' })
    .withCommand(['postgres', '-c', 'wal_level=logical', '-c', 'max_connections=200'])
    .withCopyContentToContainer([
      { content: 'create database registry;', target: '/docker-entrypoint-initdb.d/registry-database.sql' },
    ])
    // The image starts the server once for its scripts and a second time for good.
    .withWaitStrategy(Wait.forLogMessage(/database system is ready to accept connections/, 2))
    .start();

/** A broker tells its clients its address, so the port on the host has to be known before it starts. */
const startKafka = async (
  image: string,
  track: <T extends Stoppable>(starting: Promise<T>) => Promise<T>,
): Promise<string> => {
  const { kafka: port = 0 } = await chooseFreePorts(['kafka'], {});
  await track(
    new GenericContainer(image)
      .withExposedPorts({ container: port, host: port })
      .withEnvironment({
        KAFKA_NODE_ID: '1',
        KAFKA_PROCESS_ROLES: 'broker,controller',
        KAFKA_CONTROLLER_QUORUM_VOTERS: '1@localhost:9093',
        KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER',
        KAFKA_INTER_BROKER_LISTENER_NAME: 'BROKER',
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT',
        KAFKA_LISTENERS: `BROKER://:${port},CONTROLLER://:9093`,
        KAFKA_ADVERTISED_LISTENERS: `BROKER://127.0.0.1:${port}`,
        KAFKA_AUTO_CREATE_TOPICS_ENABLE: 'false',
        KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: '1',
        KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: '1',
        KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: '1',
        KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: '0',
      })
      .withWaitStrategy(Wait.forLogMessage(/Kafka Server started/))
      .start(),
  );
  return `127.0.0.1:${port}`;
};

const startRegistry = (image: string, network: StartedNetwork): Promise<StartedTestContainer> =>
  new GenericContainer(image)
    .withNetwork(network)
    .withExposedPorts(8080)
    .withEnvironment({
      APICURIO_STORAGE_KIND: 'sql',
      APICURIO_STORAGE_SQL_KIND: 'postgresql',
      APICURIO_DATASOURCE_URL: 'jdbc:postgresql://postgres:5432/registry',
      APICURIO_DATASOURCE_USERNAME: 'millrace',
      APICURIO_DATASOURCE_PASSWORD: 'millrace',
    })
    .withWaitStrategy(Wait.forHttp('/apis/ccompat/v7/subjects', 8080))
    .start();
