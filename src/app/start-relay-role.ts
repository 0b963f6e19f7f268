import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Config } from '../config/settings.ts';
import type { TopicName } from '../event-catalogue/topic-name.ts';
import { outboxChannel } from '../journal/announce-events.ts';
import { createWriterSchemas } from '../journal/writer-schemas.ts';
import { createRecordProducer } from '../kafka/record-producer.ts';
import type { RelayMetrics } from '../metrics/relay-metrics.ts';
import { OperatorError } from '../operator-error.ts';
import { listenTo } from '../postgres/listen.ts';
import { createBrokerReach } from '../relay/broker-reach.ts';
import { type BreakerChange, CircuitBreaker } from '../relay/circuit-breaker.ts';
import { createCloudEventHeaders } from '../relay/cloud-event-headers.ts';
import { createCursorSource } from '../relay/cursor-source.ts';
import { createDeadLetterNet } from '../relay/dead-letters.ts';
import type { Lease } from '../relay/lease.ts';
import type { Relay } from '../relay/loop.ts';
import { processClock } from '../relay/monotonic-clock.ts';
import { createPageBudget } from '../relay/page-budget.ts';
import { reconsiderNotice } from '../relay/pause.ts';
import { startCursorPruning } from '../relay/prune-cursors.ts';
import type { PublishPorts } from '../relay/publish-page.ts';
import { type RelayOptions, startRelay } from '../relay/relay.ts';
import { type ConditionReport, createConditionReport } from '../relay/relay-condition.ts';
import { createRelayControl } from '../relay/relay-control.ts';
import type { RelayObserver } from '../relay/relay-observer.ts';
import { startRetryRelay } from '../relay/retry-relay.ts';
import type { Shard } from '../relay/shard.ts';
import { startShardKeeper } from '../relay/shard-keeper.ts';
import { beginSharding } from '../relay/sharding.ts';
import { createWakeSignal } from '../relay/wake-signal.ts';
import { handOverToCursor } from '../relay/wal/hand-over.ts';
import { loadLogLoss } from '../relay/wal/log-loss.ts';
import { createLogOrTableSource } from '../relay/wal/log-or-table-source.ts';
import { requireOneShard } from '../relay/wal/slot.ts';
import { prepareWalSource } from '../relay/wal/wal-source.ts';
import { physicalTopic } from '../topics/topic-plan.ts';
import type { Adapters } from './adapters.ts';
import { serviceName } from './service-name.ts';

interface RelayRoleOptions {
  readonly adapters: Adapters;
  readonly databaseUrl: string;
  readonly config: Config;
  readonly metrics: RelayMetrics;
  readonly log: Logger;
}

/** The relay, in as many shards as are this process's share, and beside it the one that tries failed events again. */
export const startRelayRole = async (options: RelayRoleOptions): Promise<Relay> => {
  const { adapters, databaseUrl, config, metrics } = options;
  const log = options.log.child({ part: 'relay' });
  const { database, processName: holder } = adapters;
  requireSourceThatShares(config.relay);
  const shards = await beginSharding(database, config.relay.shards);
  tellOfOtherNumber(config.relay.shards, shards, log);

  const condition = createConditionReport({ database, name: holder, clock: () => new Date(), log });
  const observer = tellBoth(metrics, condition);
  // All of them ask the same circuit breaker: they send to the same brokers.
  const publishing: Omit<PublishPorts, 'producer'> = {
    registry: adapters.registry,
    schemas: createWriterSchemas(database),
    physicalTopic: (topic: TopicName) => physicalTopic(config.topics.prefix, topic),
    breaker: createBreaker(config, condition, log),
    publishTimeoutMs: config.relay.publishTimeoutMs,
    headersOf: config.relay.headers === 'cloudevents' ? createCloudEventHeaders() : () => undefined,
    observer,
  };
  const deadLetters = createDeadLetterNet({
    database,
    backupFile: join(config.infra.dataDir, 'dead-letters.jsonl'),
    log,
  });
  metrics.sampleFrom(() => ({ circuit: publishing.breaker.state, deadLetters: deadLetters.counts }));
  const control = createRelayControl(log);
  const common = { database, deadLetters, settings: config.relay, holder, control, log };
  const pageBudget = createPageBudget({ bytesMax: config.relay.pagesBytesMax });

  const sources = await createSources(options);
  /** With a producer of its own: one shard's trouble with a record, or its wait, is not the others'. */
  const startShard = async (shard: Shard, onLeaseLost: () => void): Promise<Relay> => {
    const wakeSignal = createWakeSignal();
    const source = await sources(shard, wakeSignal.signal);
    const producer = createRecordProducer(adapters.kafka, config.kafka);
    const ports = { ...publishing, producer };
    const onLease = async (lease: Lease): Promise<void> => {
      // Partitions may have been added while nobody relayed: a key has to go where all of its others go.
      await producer.renew();
      await source.onLease?.(lease);
    };
    const own = { publishing: ports, shard, wakeSignal, onLease, onLeaseLost, pageBudget };
    const relay = startRelay({ ...common, ...source, ...own });
    return { wake: relay.wake, stop: () => relay.stop().finally(() => producer.close()) };
  };
  const { leaseMs, handOverAfterMs } = config.relay;
  const brokers = createBrokerReach({
    breaker: publishing.breaker,
    countReachable: adapters.countReachableBrokers,
    handOverAfterMs,
    control,
    clock: processClock,
    log,
  });
  const main = startShardKeeper({ database, holder, leaseMs, startShard, brokers, observer, log });

  const pruning = startCursorPruning({ database, settings: config.relay, holder, log });

  const retryProducer = createRecordProducer(adapters.kafka, config.kafka);
  const retry = startRetryRelay({
    ...common,
    publishing: { ...publishing, producer: retryProducer },
    onLease: () => retryProducer.renew(),
  });
  const listening = listenTo({
    url: databaseUrl,
    channel: outboxChannel,
    connectTimeoutMs: config.database.connectTimeoutMs,
    onNotify: (payload) => {
      if (payload === undefined || payload === reconsiderNotice) {
        control.notice();
        retry.wake();
      }
      main.wake();
    },
    log,
  });
  return {
    wake: main.wake,
    stop: async () => {
      await Promise.all([listening.stop(), main.stop(), retry.stop(), pruning.stop(), condition.stop()]);
      await retryProducer.close();
    },
  };
};

/** Whoever counts hears everything; other processes hear of trouble. */
const tellBoth = (metrics: RelayMetrics, condition: ConditionReport): RelayObserver => ({
  ...metrics,
  troubleChanged: (lease, error) => {
    metrics.troubleChanged(lease, error);
    condition.troubleChanged(lease, error);
  },
});

/** Before a new system begins with a number that its source cannot work with. */
const requireSourceThatShares = ({ source, shards }: Config['relay']): void => {
  if (source !== 'wal' || shards === 1) return;
  throw new OperatorError(
    `The write-ahead log can be relayed in one shard only, and RELAY_SHARDS is ${shards}`,
    { remedy: 'Leave RELAY_SHARDS at 1, or RELAY_SOURCE at cursor', exitCode: 2 },
  );
};

const tellOfOtherNumber = (wanted: number, inForce: number, log: Logger): void => {
  if (wanted === inForce) return;
  log.warn(
    { wanted, inForce },
    `RELAY_SHARDS is ${wanted}, but the relays of this system work in ${inForce}: that counts. npx millrace relay reshard ${wanted} changes it`,
  );
};

/** Systems that share a server must not share a slot; they have different prefixes for the same reason. */
const slotName = (prefix: string): string =>
  `millrace_relay${prefix && `_${prefix.toLowerCase().replace(/[^a-z0-9]/g, '_')}`}`.slice(0, 63);

type ShardSource = Pick<RelayOptions, 'source' | 'onLease'>;

/** Makes the source of a shard. A source that cannot be had at all is told now, and not when the relay has started. */
const createSources = async ({
  adapters: { database },
  databaseUrl,
  config,
  log,
}: RelayRoleOptions): Promise<(shard: Shard, onChange: () => void) => Promise<ShardSource>> => {
  const slot = slotName(config.topics.prefix);
  if (config.relay.source === 'wal') {
    const settings = { slot, connectTimeoutMs: config.database.connectTimeoutMs };
    const walOptions = { database, databaseUrl, applicationName: serviceName, settings, log };
    // Otherwise it is read by snapshots until an operator says something else.
    if (!(await loadLogLoss(database))) await prepareWalSource(walOptions);
    return async (_shard, onChange) => {
      await requireOneShard(database);
      return { source: createLogOrTableSource({ ...walOptions, onChange }) };
    };
  }
  return async (shard) => ({
    source: createCursorSource(database, shard),
    // Whoever relayed before may have read the log: the cursor then goes on where that one stopped.
    onLease: async (lease) => {
      const handedOver = shard.of === 1 && (await handOverToCursor(database, { slot, lease }));
      if (handedOver)
        log.warn('The relay reads the outbox by snapshots again; its replication slot is dropped');
    },
  });
};

const createBreaker = ({ relay }: Config, condition: ConditionReport, log: Logger): CircuitBreaker =>
  new CircuitBreaker({
    settings: {
      windowCalls: relay.breakerWindowCalls,
      callsMin: relay.breakerCallsMin,
      failureRatePercent: relay.breakerFailureRatePercent,
      openMs: relay.breakerOpenMs,
      trialCalls: relay.breakerTrialCalls,
    },
    clock: processClock.now,
    onChange: (change) => {
      tellCircuit(log, change);
      condition.circuitChanged(change.to);
    },
  });

/** A trial that finds things as they were is no news for anybody: through a night without brokers there is one every 30 s. */
const tellCircuit = (log: Logger, { from, to }: BreakerChange): void => {
  const isTrial = to === 'half-open' || (from === 'half-open' && to === 'open');
  log[isTrial ? 'info' : 'warn']({ from, to }, `The circuit to Kafka is ${to}`);
};
