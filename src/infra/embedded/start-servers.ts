import { isCached } from './artifact-cache.ts';
import { findOnPath } from './find-executable.ts';
import { ensureKafkaCluster, type KafkaCluster } from './kafka/kafka-cluster.ts';
import { downloadKafka, kafkaArtifact, kafkaJars } from './kafka/kafka-distribution.ts';
import { kafkaServer } from './kafka/kafka-server.ts';
import type { Maven } from './maven.ts';
import { findPostgresBinaries } from './postgres/postgres-binaries.ts';
import { ensurePostgresCluster, type PostgresCluster } from './postgres/postgres-cluster.ts';
import { postgresServer, postgresUrl } from './postgres/postgres-server.ts';
import { locatePostgresData } from './postgres/relocation.ts';
import { findServerUser } from './postgres/server-user.ts';
import { redisServer, redisUrl } from './redis/redis-server.ts';
import { downloadRegistry, registryArtifact, registryJars } from './registry/registry-distribution.ts';
import { registryServer, registryUrl } from './registry/registry-server.ts';
import { portOf, type StackKit } from './stack-kit.ts';
import type { EmbeddedEndpoints } from './stack-state.ts';
import { requireToolchain, type Toolchain } from './toolchain.ts';

/**
 * Starts everything that is needed, side by side: only the registry waits for PostgreSQL. When one fails the
 * others are called off, and the failure is told only when they have all come to an end.
 */
export const startServers = async (kit: StackKit): Promise<EmbeddedEndpoints> => {
  const { needs } = kit;
  const java = needs.kafka || needs.registry ? await prepareJava(kit) : undefined;
  const postgres = needs.postgres ? reported(kit, 'PostgreSQL', startPostgres(kit)) : undefined;
  const tasks = [
    postgres,
    needs.kafka && java ? reported(kit, 'Kafka', startKafka(kit, java)) : undefined,
    needs.registry && java && postgres
      ? reported(kit, 'Schema registry', startRegistry(kit, java, postgres))
      : undefined,
    needs.redis ? startRedis(kit) : undefined,
  ] as const;
  await Promise.allSettled(tasks);
  kit.signal.throwIfAborted();
  const [database, brokers, registry, redis] = await Promise.all(tasks);
  return {
    databaseUrl: database?.url,
    kafkaBrokers: brokers,
    schemaRegistryUrl: registry,
    redisUrl: redis,
  };
};

/** The names under which the stack remembers its ports. */
export const portNames = (kit: Pick<StackKit, 'needs' | 'config'>): readonly string[] => [
  'postgres',
  'registry',
  'redis',
  ...brokerIds(kit).flatMap((id) => [`kafka-${id}`, `kafka-${id}-controller`]),
];

const brokerIds = ({ config }: Pick<StackKit, 'config'>): readonly number[] =>
  Array.from({ length: config.infra.brokers }, (_, index) => index + 1);

interface JavaServers {
  readonly toolchain: Toolchain;
  /** Two at once would share Maven's local repository, which is not made for that. */
  readonly kafkaFetched: Promise<void>;
  readonly registryFetched: Promise<void>;
}

const prepareJava = async (kit: StackKit): Promise<JavaServers> => {
  const { needs } = kit;
  const kafka = kafkaArtifact(kit.config.infra.cacheDir);
  const registry = registryArtifact(kit.config.infra.cacheDir);
  const fetchesKafka = needs.kafka && !isCached(kafka);
  const fetchesRegistry = needs.registry && !isCached(registry);
  const toolchain = await requireToolchain({ env: kit.env, needsMaven: fetchesKafka || fetchesRegistry });
  const maven: Maven = { ...kit, command: toolchain.maven ?? 'mvn' };
  const kafkaFetched = fetchesKafka ? downloadKafka(kafka, maven) : Promise.resolve();
  const registryFetched = kafkaFetched.then(() =>
    fetchesRegistry ? downloadRegistry(registry, maven) : undefined,
  );
  // Whoever waits for it hears of a failure; until somebody does, it must not count as unhandled.
  registryFetched.catch(() => undefined);
  return { toolchain, kafkaFetched, registryFetched };
};

interface RunningPostgres {
  readonly url: string;
  readonly password: string;
  readonly port: number;
}

const startPostgres = async (kit: StackKit): Promise<RunningPostgres> => {
  const user = await findServerUser();
  const cluster: PostgresCluster = {
    data: locatePostgresData(kit.dir, user),
    passwordFile: kit.dir.postgresPassword,
    binaries: await findPostgresBinaries(user),
    user,
  };
  const password = await ensurePostgresCluster(cluster, kit);
  const port = portOf(kit, 'postgres');
  await kit.run(postgresServer(cluster, { port, logs: kit.dir.logs }));
  return { password, port, url: postgresUrl({ password, port, database: 'millrace' }) };
};

const startKafka = async (kit: StackKit, java: JavaServers): Promise<string[]> => {
  await java.kafkaFetched;
  const cluster: KafkaCluster = {
    dir: kit.dir,
    java: java.toolchain.java,
    jars: kafkaJars(kafkaArtifact(kit.config.infra.cacheDir)),
    nodes: brokerIds(kit).map((id) => ({
      id,
      port: portOf(kit, `kafka-${id}`),
      controllerPort: portOf(kit, `kafka-${id}-controller`),
    })),
  };
  await ensureKafkaCluster(cluster, kit);
  await Promise.all(cluster.nodes.map((node) => kit.run(kafkaServer(cluster, node))));
  return cluster.nodes.map((node) => `127.0.0.1:${node.port}`);
};

const startRegistry = async (
  kit: StackKit,
  java: JavaServers,
  postgres: Promise<RunningPostgres>,
): Promise<string> => {
  await java.registryFetched;
  const { password, port: postgresPort } = await postgres;
  const port = portOf(kit, 'registry');
  const jars = registryJars(registryArtifact(kit.config.infra.cacheDir));
  await kit.run(
    registryServer({ dir: kit.dir, java: java.toolchain.java, jars, port, postgresPort, password }),
  );
  return registryUrl(port);
};

const startRedis = async (kit: StackKit): Promise<string | undefined> => {
  const command = findOnPath('redis-server', kit.env);
  if (command === undefined) {
    kit.log.info('there is no redis-server on the PATH: the cache lives in the process');
    return undefined;
  }
  const port = portOf(kit, 'redis');
  await reported(kit, 'Redis', kit.run(redisServer({ dir: kit.dir, command, port })));
  return redisUrl(port);
};

const reported = async <T>(kit: StackKit, subject: string, work: Promise<T>): Promise<T> => {
  const startedMs = Date.now();
  kit.report({ subject, state: 'running', text: 'starting' });
  try {
    const result = await work;
    const seconds = ((Date.now() - startedMs) / 1000).toFixed(1);
    kit.report({ subject, state: 'done', text: `ready after ${seconds} s`, fraction: 1 });
    return result;
  } catch (error) {
    const text = kit.signal.aborted ? 'called off' : (error as Error).message;
    kit.report({ subject, state: 'failed', text });
    kit.callOff(error as Error);
    throw error;
  }
};
