import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ServerSpec } from '../managed-server.ts';
import { type KafkaCluster, logDirOf } from './kafka-cluster.ts';
import { readBrokerIds } from './kafka-probe.ts';
import { type KafkaNode, log4jProperties, serverProperties } from './kafka-settings.ts';

const stopTimeoutMs = 15_000;

/** Three brokers share the memory that a laptop has for one. */
const heapMb = (brokers: number): number => (brokers === 1 ? 320 : 224);

export const kafkaServer = (cluster: KafkaCluster, node: KafkaNode): ServerSpec => {
  const { dir, nodes } = cluster;
  const name = `kafka-${node.id}`;
  const logFile = join(dir.logs, `${name}.log`);
  const properties = join(dir.run, `${name}.properties`);
  const logging = join(dir.run, `${name}.log4j2.properties`);
  const logDir = logDirOf(dir.kafka, node);
  writeFileSync(properties, serverProperties({ node, nodes, logDir }));
  writeFileSync(logging, log4jProperties(logFile));
  return {
    name,
    title: `Kafka broker ${node.id}`,
    command: cluster.java,
    args: [
      ...[
        `-Xmx${heapMb(nodes.length)}m`,
        '-XX:+UseSerialGC',
        '-XX:-UsePerfData',
        '-XX:+ExitOnOutOfMemoryError',
      ],
      ...[`-Dlog4j2.configurationFile=${logging}`, '-cp', cluster.jars, 'kafka.Kafka', properties],
    ],
    cwd: dir.run,
    stopSignal: 'SIGTERM',
    stopTimeoutMs,
    logFile,
    isHealthy: () => knowsItself(node),
  };
};

const knowsItself = async (node: KafkaNode): Promise<boolean> => {
  try {
    return (await readBrokerIds(node.port)).includes(node.id);
  } catch {
    return false;
  }
};
