import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Config } from '../config/settings.ts';
import type { TopicName } from '../event-catalogue/topic-name.ts';
import { outboxChannel } from '../journal/announce-events.ts';
import { createWriterSchemas } from '../journal/writer-schemas.ts';
import { createRecordProducer } from '../kafka/record-producer.ts';
import { listenTo } from '../postgres/listen.ts';
import { type BreakerChange, CircuitBreaker } from '../relay/circuit-breaker.ts';
import { createCloudEventHeaders } from '../relay/cloud-event-headers.ts';
import { createCursorSource } from '../relay/cursor-source.ts';
import { createDeadLetterNet } from '../relay/dead-letters.ts';
import type { Lease } from '../relay/lease.ts';
import type { Relay } from '../relay/loop.ts';
import type { OutboxSource } from '../relay/outbox-source.ts';
import type { PublishPorts } from '../relay/publish-page.ts';
import { startRelay } from '../relay/relay.ts';
import { startRetryRelay } from '../relay/retry-relay.ts';
import { createWakeSignal } from '../relay/wake-signal.ts';
import { handOverToCursor } from '../relay/wal/hand-over.ts';
import { createWalSource } from '../relay/wal/wal-source.ts';
import { physicalTopic } from '../topics/topic-plan.ts';
import type { Adapters } from './adapters.ts';
import { serviceName } from './service-name.ts';

interface RelayRoleOptions {
  readonly adapters: Adapters;
  readonly databaseUrl: string;
  readonly config: Config;
  readonly log: Logger;
}

/** The relay and, beside it, the one that tries failed events again; both ask the same circuit breaker. */
export const startRelayRole = async (options: RelayRoleOptions): Promise<Relay> => {
  const { adapters, databaseUrl, config } = options;
  const log = options.log.child({ part: 'relay' });
  const { database, processName: holder } = adapters;
  const wakeSignal = createWakeSignal();
  const producer = createRecordProducer(adapters.kafka, config.kafka);
  const publishing: PublishPorts = {
    producer,
    registry: adapters.registry,
    schemas: createWriterSchemas(database),
    physicalTopic: (topic: TopicName) => physicalTopic(config.topics.prefix, topic),
    breaker: createBreaker(config, log),
    publishTimeoutMs: config.relay.publishTimeoutMs,
    headersOf: config.relay.headers === 'cloudevents' ? createCloudEventHeaders() : () => ({}),
  };
  const backupFile = join(config.infra.dataDir, 'dead-letters.jsonl');
  const deadLetters = createDeadLetterNet({ database, backupFile, log });
  const common = { database, publishing, deadLetters, settings: config.relay, holder, log };
  const main = startRelay({ ...common, ...(await createSource(options, wakeSignal.signal)), wakeSignal });
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

/** Systems that share a server must not share a slot; they have different prefixes for the same reason. */
const slotName = (prefix: string): string =>
  `millrace_relay${prefix && `_${prefix.toLowerCase().replace(/[^a-z0-9]/g, '_')}`}`.slice(0, 63);

const createSource = async (
  { adapters: { database }, databaseUrl, config, log }: RelayRoleOptions,
  onChange: () => void,
): Promise<{ source: OutboxSource; onLease?: (lease: Lease) => Promise<void> }> => {
  const slot = slotName(config.topics.prefix);
  if (config.relay.source === 'wal') {
    const settings = { slot, connectTimeoutMs: config.database.connectTimeoutMs };
    const source = await createWalSource({
      database,
      databaseUrl,
      applicationName: serviceName,
      settings,
      log,
      onChange,
    });
    return { source };
  }
  return {
    source: createCursorSource(database),
    // Whoever relayed before may have read the log: the cursor then goes on where that one stopped.
    onLease: async (lease) => {
      const handedOver = await handOverToCursor(database, { slot, lease });
      if (handedOver)
        log.warn('The relay reads the outbox by snapshots again; its replication slot is dropped');
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
