import { Kafka, logLevel } from 'kafkajs';
// Not part of kafkajs's public face; needed for the repairs below.
import Broker from 'kafkajs/src/broker/index.js';
import RequestQueue from 'kafkajs/src/network/requestQueue/index.js';
import type { Logger } from 'pino';
import { type BrokerConnections, cutUnlessAnswered } from './cut-hanging-broker.ts';

/** A handle on the cluster; only this folder looks inside. */
export type KafkaClient = Kafka;

export interface KafkaOptions {
  readonly brokers: readonly string[];
  readonly clientId: string;
  readonly connectTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly retriesMax: number;
  readonly retryDelayMs: number;
  readonly log: Logger;
}

export const createKafka = (options: KafkaOptions): Kafka => {
  repairKafkajs();
  return new Kafka({
    brokers: [...options.brokers],
    clientId: options.clientId,
    connectionTimeout: options.connectTimeoutMs,
    requestTimeout: options.requestTimeoutMs,
    // kafkajs backs off exponentially with jitter unless told otherwise; the specification wants an even pace.
    retry: {
      retries: options.retriesMax,
      initialRetryTime: options.retryDelayMs,
      maxRetryTime: options.retryDelayMs,
      multiplier: 1,
      factor: 0,
    },
    logLevel: logLevel.WARN,
    logCreator: () => (entry) => writeTo(options.log, entry),
  });
};

interface KafkaLogEntry {
  readonly level: logLevel;
  readonly namespace: string;
  readonly log: { readonly message: string; readonly [key: string]: unknown };
}

/** kafkajs reports every lost connection as an error while it retries by itself: a warning, unless the caller sees it fail. */
const writeTo = (log: Logger, { namespace, log: { message, ...rest } }: KafkaLogEntry): void => {
  const { timestamp: _, logger: __, stack: ___, ...fields } = rest;
  log.debug({ kafkajs: namespace, ...fields }, message);
};

interface RequestQueueInternals {
  readonly pending: readonly unknown[];
  readonly throttledUntil: number;
  scheduleCheckPendingRequests(): void;
}

interface BrokerInternals extends BrokerConnections {
  readonly connectionPool: BrokerConnections['connectionPool'] & { readonly connectionTimeout: number };
  connect(): Promise<void>;
}

let isRepaired = false;

const repairKafkajs = (): void => {
  if (isRepaired) return;
  isRepaired = true;
  stopIdleRequestQueuesFromSpinning();
  takeHangingBrokersForUnreachable();
};

/**
 * A queue with nothing pending re-arms a timer with a negative delay for ever (tulios/kafkajs#1751): 4 to 5 % of a core
 * per process and a TimeoutNegativeWarning on Node 24. With nothing pending there is nothing to check.
 */
const stopIdleRequestQueuesFromSpinning = (): void => {
  const prototype = RequestQueue.prototype as RequestQueueInternals;
  const schedule = prototype.scheduleCheckPendingRequests;
  prototype.scheduleCheckPendingRequests = function (this: RequestQueueInternals) {
    if (this.pending.length > 0) schedule.call(this);
  };
};

/**
 * A broker that hangs takes a connection and does not say which requests it knows. kafkajs waits for that as for any answer
 * and then takes the broker for connected, instead of trying another one from the list.
 */
const takeHangingBrokersForUnreachable = (): void => {
  const prototype = Broker.prototype as BrokerInternals;
  const connect = prototype.connect;
  prototype.connect = function (this: BrokerInternals) {
    return cutUnlessAnswered(this, this.connectionPool.connectionTimeout, connect.call(this));
  };
};
