import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Config } from '../config/settings.ts';
import { outboxChannel } from '../journal/announce-events.ts';
import { createWriterSchemas } from '../journal/writer-schemas.ts';
import { createRecordProducer } from '../kafka/record-producer.ts';
import { listenTo } from '../postgres/listen.ts';
import { type BreakerChange, CircuitBreaker } from '../relay/circuit-breaker.ts';
import { createCursorSource } from '../relay/cursor-source.ts';
import { createDeadLetterNet } from '../relay/dead-letters.ts';
import { type Relay, startRelay } from '../relay/relay.ts';
import { startRetryRelay } from '../relay/retry-relay.ts';
import { physicalTopic } from '../topics/topic-plan.ts';
import type { Adapters } from './adapters.ts';

/** The relay and, beside it, the one that tries failed events again; both ask the same circuit breaker. */
export const startRelayRole = (options: {
  adapters: Adapters;
  databaseUrl: string;
  config: Config;
  log: Logger;
}): Relay => {
  const { adapters, databaseUrl, config } = options;
  const log = options.log.child({ part: 'relay' });
  const { database, registry, processName: holder } = adapters;
  const producer = createRecordProducer(adapters.kafka, config.kafka);
  const deadLetters = createDeadLetterNet({
    database,
    backupFile: join(config.infra.dataDir, 'dead-letters.jsonl'),
    log,
  });
  const publishing = {
    producer,
    registry,
    schemas: createWriterSchemas(database),
    physicalTopic: (topic: Parameters<typeof physicalTopic>[1]) => physicalTopic(config.topics.prefix, topic),
    breaker: createBreaker(config, log),
    publishTimeoutMs: config.relay.publishTimeoutMs,
  };
  const common = { database, publishing, deadLetters, settings: config.relay, holder, log };
  const main = startRelay({ ...common, source: createCursorSource(database) });
  const retry = startRetryRelay(common);
  const listening = listenTo({
    url: databaseUrl,
    channel: outboxChannel,
    connectTimeoutMs: config.database.connectTimeoutMs,
    onNotify: main.wake,
    log,
  });
  return {
    wake: main.wake,
    stop: async () => {
      await Promise.all([listening.stop(), main.stop(), retry.stop()]);
      await producer.close();
    },
  };
};

const createBreaker = ({ relay }: Config, log: Logger): CircuitBreaker =>
  new CircuitBreaker({
    settings: {
      windowCalls: relay.breakerWindowCalls,
      callsMin: relay.breakerCallsMin,
      failureRatePercent: relay.breakerFailureRatePercent,
      openMs: relay.breakerOpenMs,
      trialCalls: relay.breakerTrialCalls,
    },
    clock: Date.now,
    onChange: ({ from, to }: BreakerChange) => log.warn({ from, to }, `The circuit to Kafka is ${to}`),
  });
