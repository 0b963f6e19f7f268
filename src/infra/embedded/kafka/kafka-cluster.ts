import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { OperatorError } from '../../../operator-error.ts';
import type { DataDir } from '../data-dir.ts';
import { runTool, ToolError } from '../run-tool.ts';
import type { Supervisor } from '../supervisor.ts';
import { type KafkaNode, serverProperties } from './kafka-settings.ts';

const formatTimeoutMs = 120_000;

export interface KafkaCluster {
  readonly dir: DataDir;
  readonly nodes: readonly KafkaNode[];
  readonly java: string;
  readonly jars: string;
}

export const logDirOf = (kafkaDir: string, node: KafkaNode): string => join(kafkaDir, `broker-${node.id}`);

/** Formats the log directories of all brokers where there are none. */
export const ensureKafkaCluster = async (
  cluster: KafkaCluster,
  context: { supervisor: Supervisor; signal?: AbortSignal | undefined },
): Promise<void> => {
  if (existsSync(cluster.dir.kafka)) return refuseOtherSize(cluster);
  const unfinished = `${cluster.dir.kafka}.unfinished`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  const clusterId = randomBytes(16).toString('base64url').replace(/^-/, 'a');
  await Promise.all(
    cluster.nodes.map((node) => format(cluster, { ...context, unfinished, node, clusterId })),
  );
  writeFileSync(brokerCountFile(unfinished), `${cluster.nodes.length}\n`);
  // Only a finished cluster gets the name; a crash before this line leaves nothing that looks like one.
  renameSync(unfinished, cluster.dir.kafka);
};

const format = async (
  cluster: KafkaCluster,
  context: {
    supervisor: Supervisor;
    signal?: AbortSignal | undefined;
    unfinished: string;
    node: KafkaNode;
    clusterId: string;
  },
): Promise<void> => {
  const { unfinished, node, clusterId } = context;
  const logDir = logDirOf(unfinished, node);
  const properties = join(unfinished, `format-${node.id}.properties`);
  mkdirSync(logDir);
  writeFileSync(properties, serverProperties({ node, nodes: cluster.nodes, logDir }));
  try {
    await runTool(context.supervisor, {
      name: 'kafka-storage',
      command: cluster.java,
      args: [
        ...['-Xmx128m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-XX:-UsePerfData'],
        ...['-cp', cluster.jars, 'kafka.tools.StorageTool'],
        ...['format', '--cluster-id', clusterId, '--config', properties],
      ],
      cwd: unfinished,
      timeoutMs: formatTimeoutMs,
      signal: context.signal,
    });
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    throw new OperatorError(`Kafka's data directory could not be made: ${error.complaint}`, {
      remedy: 'Make sure there is room and that the directory can be written, and start again',
      cause: error,
    });
  }
  rmSync(properties);
};

const brokerCountFile = (kafkaDir: string): string => join(kafkaDir, 'broker-count');

/** Partitions would have to move and the quorum to grow; for data that can be made again a reset is honest. */
const refuseOtherSize = (cluster: KafkaCluster): void => {
  const wanted = cluster.nodes.length;
  const existing = Number(readFileSync(brokerCountFile(cluster.dir.kafka), 'utf8'));
  if (existing === wanted) return;
  throw new OperatorError(`MILLRACE_BROKERS is ${wanted}, but the Kafka data was made with ${existing}`, {
    remedy: `Start with MILLRACE_BROKERS=${existing}, or remove all data with: npm run reset`,
  });
};
