import type { Logger } from 'pino';
import type { Envelope } from '../avro/envelope.ts';
import type { Config } from '../config/settings.ts';
import type { TopicName } from '../event-catalogue/topic-name.ts';
import { createDeadLetterTopics } from '../kafka/dead-letter-topic.ts';
import { createRecordSource } from '../kafka/record-consumer.ts';
import { createRecordProducer } from '../kafka/record-producer.ts';
import { productStatistic } from '../projections/product-statistic.ts';
import { createEnvelopeDecoder } from '../registry/envelope-decoder.ts';
import { runTopology } from '../streams/run-topology.ts';
import type { StreamOf, Topology } from '../streams/topology.ts';
import { createPostgresStateStore } from '../streams-postgres/postgres-state-store.ts';
import { physicalTopic } from '../topics/topic-plan.ts';
import type { Adapters } from './adapters.ts';
import type { Part } from './start-app.ts';

/** Every projection there is, over the topics as this system's broker calls them. */
export const projections = (config: Config): readonly Topology[] => {
  const envelopes = (name: TopicName): StreamOf<Envelope> => ({
    topic: physicalTopic(config.topics.prefix, name),
  });
  return [
    productStatistic({
      productViewEvents: envelopes('product-view-events'),
      stockEvents: envelopes('stock-events'),
    }),
  ];
};

/** Consumer groups live on the broker beside other systems' topics, so they carry the same prefix. */
export const consumerGroupOf = (config: Config, projection: string): string =>
  `${config.topics.prefix}millrace-${projection}`;

export const topicsOf = (topology: Topology): readonly string[] => [
  ...new Set(topology.sources.map((source) => source.topic)),
];

export const startProjector = async (adapters: Adapters, config: Config, log: Logger): Promise<Part> => {
  const producer = createRecordProducer(adapters.kafka, config.kafka);
  const running = await Promise.all(
    projections(config).map((topology) =>
      runTopology({
        topology,
        source: createRecordSource(adapters.kafka, {
          groupId: consumerGroupOf(config, topology.name),
          topics: topicsOf(topology),
          startFrom: config.streams.startFrom,
          sessionTimeoutMs: config.streams.sessionTimeoutMs,
          heartbeatIntervalMs: config.streams.heartbeatIntervalMs,
          log: log.child({ part: 'projector', projection: topology.name }),
        }),
        decoder: createEnvelopeDecoder(adapters.registry),
        store: createPostgresStateStore(adapters.database),
        deadLetters: createDeadLetterTopics(producer),
        settings: config.streams,
        log: log.child({ part: 'projector' }),
      }),
    ),
  );
  return {
    failed: Promise.race(running.map((topology) => topology.failed)),
    stop: async () => {
      await Promise.all(running.map((topology) => topology.stop()));
      await producer.close();
    },
  };
};
