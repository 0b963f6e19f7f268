export interface KafkaNode {
  readonly id: number;
  readonly port: number;
  readonly controllerPort: number;
}

export interface KafkaNodeSettings {
  readonly node: KafkaNode;
  readonly nodes: readonly KafkaNode[];
  readonly logDir: string;
}

/** Every broker is a controller too; with three, any one of them may be lost. */
export const serverProperties = ({ node, nodes, logDir }: KafkaNodeSettings): string => {
  const factor = nodes.length;
  const inSyncMin = factor === 1 ? 1 : 2;
  return asProperties({
    'process.roles': 'broker,controller',
    'node.id': node.id,
    'controller.quorum.voters': nodes
      .map(({ id, controllerPort }) => `${id}@127.0.0.1:${controllerPort}`)
      .join(),
    listeners: `BROKER://127.0.0.1:${node.port},CONTROLLER://127.0.0.1:${node.controllerPort}`,
    'advertised.listeners': `BROKER://127.0.0.1:${node.port}`,
    'listener.security.protocol.map': 'BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'inter.broker.listener.name': 'BROKER',
    'controller.listener.names': 'CONTROLLER',
    'log.dirs': logDir,
    // A topic nobody declared is a mistake, not a topic.
    'auto.create.topics.enable': false,
    'default.replication.factor': factor,
    'min.insync.replicas': inSyncMin,
    'offsets.topic.num.partitions': 5,
    'offsets.topic.replication.factor': factor,
    'transaction.state.log.num.partitions': 5,
    'transaction.state.log.replication.factor': factor,
    'transaction.state.log.min.isr': inSyncMin,
    'share.coordinator.state.topic.num.partitions': 5,
    'share.coordinator.state.topic.replication.factor': factor,
    'share.coordinator.state.topic.min.isr': inSyncMin,
    'group.initial.rebalance.delay.ms': 0,
    // The default of 128 MB would be a third of the heap.
    'log.cleaner.dedupe.buffer.size': 16 * 1024 * 1024,
    // After a kill the broker may only come back once its old session has run out.
    'broker.session.timeout.ms': 6000,
  });
};

/** One file of bounded size beside the other servers' logs. */
export const log4jProperties = (logFile: string): string =>
  asProperties({
    status: 'warn',
    'appender.file.type': 'RollingFile',
    'appender.file.name': 'file',
    'appender.file.fileName': logFile,
    'appender.file.filePattern': `${logFile}.%i`,
    'appender.file.layout.type': 'PatternLayout',
    'appender.file.layout.pattern': '%d{yyyy-MM-dd HH:mm:ss,SSS} %p %m (%c)%n',
    'appender.file.policies.type': 'Policies',
    'appender.file.policies.size.type': 'SizeBasedTriggeringPolicy',
    'appender.file.policies.size.size': '5MB',
    'appender.file.strategy.type': 'DefaultRolloverStrategy',
    'appender.file.strategy.max': 1,
    'rootLogger.level': 'warn',
    'rootLogger.appenderRef.file.ref': 'file',
    'logger.server.name': 'kafka.server',
    'logger.server.level': 'info',
    // It prints every setting at every start.
    'logger.config.name': 'kafka.server.KafkaConfig',
    'logger.config.level': 'warn',
  });

const asProperties = (settings: Readonly<Record<string, string | number | boolean>>): string =>
  Object.entries(settings)
    .map(([key, value]) => `${key}=${String(value).replaceAll('\\', '\\\\')}\n`)
    .join('');
