import type { Logger } from 'pino';
import type { Config } from '../config/settings.ts';
import { createWriterSchemas } from '../journal/writer-schemas.ts';
import { createRecordProducer } from '../kafka/record-producer.ts';
import { type Relay, startRelay } from '../relay/relay.ts';
import { physicalTopic } from '../topics/topic-plan.ts';
import type { Adapters } from './adapters.ts';

export const startRelayRole = (adapters: Adapters, config: Config, log: Logger): Relay => {
  const producer = createRecordProducer(adapters.kafka, config.kafka);
  const relay = startRelay({
    database: adapters.database,
    publishing: {
      producer,
      registry: adapters.registry,
      schemas: createWriterSchemas(adapters.database),
      physicalTopic: (topic) => physicalTopic(config.topics.prefix, topic),
    },
    settings: config.relay,
    holder: adapters.processName,
    log: log.child({ part: 'relay' }),
  });
  return {
    ...relay,
    stop: async () => {
      await relay.stop();
      await producer.close();
    },
  };
};
