/**
 * BROKER_UNAVAILABLE: the cluster's trouble, any record would have failed. RECORD_TOO_LARGE and REFUSED: the brokers work
 * and did not want these records, or do not know the topic. UNKNOWN: none of these can be said.
 */
export type PublishErrorCode = 'BROKER_UNAVAILABLE' | 'RECORD_TOO_LARGE' | 'REFUSED' | 'UNKNOWN';

export interface FailedPartition {
  readonly topic: string;
  readonly partition: number;
  /** Kafka's name for the broker's answer; without one, whether the records were sent at all. */
  readonly reason: string;
}

/** Records of one partition that no broker has acknowledged; they may be there all the same, unless they were refused. */
export interface UnacknowledgedRecords extends FailedPartition {
  /** The broker answered that it will not take them, however often they come. */
  readonly isRefused: boolean;
  /** Their places in the array that was given for the topic. */
  readonly positions: readonly number[];
}

/** Why a topic takes no record at all, until somebody creates it or grants the right. */
export type TopicRefusal = 'missing' | 'forbidden' | 'invalid';

export interface PublishErrorDetails {
  readonly retriable: boolean;
  readonly cause?: unknown;
  readonly unacknowledged?: readonly UnacknowledgedRecords[];
  readonly refusedTopics?: ReadonlyMap<string, TopicRefusal>;
}

export class PublishError extends Error {
  override readonly name = 'PublishError';
  readonly code: PublishErrorCode;
  /** Whether sending the same again may help, without anybody changing anything. */
  readonly retriable: boolean;
  /** Every partition with records that were not acknowledged; empty when the send failed before they had partitions. */
  readonly failed: readonly FailedPartition[];
  /** Topics that take none of the records they were given, nor any other. */
  readonly refusedTopics: ReadonlyMap<string, TopicRefusal>;
  // Not a property that a logger would print: there may be thousands of positions.
  readonly #unacknowledged: readonly UnacknowledgedRecords[];

  constructor(code: PublishErrorCode, details: PublishErrorDetails) {
    const { retriable, cause, unacknowledged = [], refusedTopics = new Map() } = details;
    const reason = cause instanceof Error ? cause.message : 'no reason given';
    super(`Kafka has not taken all records (${code}): ${reason}`, { cause });
    this.code = code;
    this.retriable = retriable;
    this.refusedTopics = refusedTopics;
    this.#unacknowledged = unacknowledged;
    const partitions = new Map<string, FailedPartition>();
    for (const { topic, partition, reason: why } of unacknowledged) {
      // The first one is what happened, the later ones only wait behind it.
      const name = `${topic}/${partition}`;
      if (!partitions.has(name)) partitions.set(name, { topic, partition, reason: why });
    }
    this.failed = [...partitions.values()];
  }

  /** Batch by batch in the order of sending; empty when the send failed before records had partitions: then it is all. */
  unacknowledged(): readonly UnacknowledgedRecords[] {
    return this.#unacknowledged;
  }
}

/** What a circuit breaker counts: nothing is wrong with the records, the cluster cannot be reached or cannot write. */
export const isBrokerTrouble = (error: unknown): boolean => codeOf(error) === 'BROKER_UNAVAILABLE';

const recordsFault: ReadonlyMap<string, PublishErrorCode> = new Map([
  ['MESSAGE_TOO_LARGE', 'RECORD_TOO_LARGE'],
  ['RECORD_LIST_TOO_LARGE', 'RECORD_TOO_LARGE'],
  ['INVALID_RECORD', 'REFUSED'],
  ['CORRUPT_MESSAGE', 'REFUSED'],
  ['INVALID_TIMESTAMP', 'REFUSED'],
  ['UNSUPPORTED_FOR_MESSAGE_FORMAT', 'REFUSED'],
  ['POLICY_VIOLATION', 'REFUSED'],
]);

/** Somebody has to create the topic or grant the right: the other topics' records are not to wait for that. */
const topicsFault: ReadonlyMap<string, TopicRefusal> = new Map([
  ['UNKNOWN_TOPIC_OR_PARTITION', 'missing'],
  ['INVALID_TOPIC_EXCEPTION', 'invalid'],
  ['TOPIC_AUTHORIZATION_FAILED', 'forbidden'],
]);

/** Whether this answer of a broker is about the records themselves or their topic. */
export const isRecordsFault = (type: string): boolean => recordsFault.has(type) || topicsFault.has(type);

const brokerTrouble: ReadonlySet<string> = new Set([
  'LEADER_NOT_AVAILABLE',
  'NOT_LEADER_FOR_PARTITION',
  'REQUEST_TIMED_OUT',
  'BROKER_NOT_AVAILABLE',
  'REPLICA_NOT_AVAILABLE',
  'NETWORK_EXCEPTION',
  'NOT_ENOUGH_REPLICAS',
  'NOT_ENOUGH_REPLICAS_AFTER_APPEND',
  'KAFKA_STORAGE_ERROR',
  'FENCED_LEADER_EPOCH',
  'UNKNOWN_LEADER_EPOCH',
  'NOT_CONTROLLER',
  'GROUP_COORDINATOR_NOT_AVAILABLE',
  'CLUSTER_AUTHORIZATION_FAILED',
  'SASL_AUTHENTICATION_FAILED',
  'KafkaJSConnectionError',
  'KafkaJSConnectionClosedError',
  'KafkaJSRequestTimeoutError',
  'KafkaJSBrokerNotFound',
  'KafkaJSMetadataNotLoaded',
  'KafkaJSTopicMetadataNotLoaded',
  'KafkaJSLockTimeout',
  'KafkaJSSASLAuthenticationError',
]);

/** Sequence numbers that no longer match: the next send has a new producer, and with it new ones. */
const healedByNewProducer: ReadonlySet<string> = new Set([
  'OUT_OF_ORDER_SEQUENCE_NUMBER',
  'UNKNOWN_PRODUCER_ID',
  'INVALID_PRODUCER_EPOCH',
  'INVALID_PRODUCER_ID_MAPPING',
]);

/** kafkajs wraps what went wrong once for the retries and again for giving up. */
const causesMax = 8;

const causesOf = function* (error: unknown): Generator<Error> {
  let current = error;
  for (let depth = 0; depth < causesMax && current instanceof Error; depth++) {
    yield current;
    current = current.cause;
  }
};

/** What went wrong by Kafka's names and kafkajs's, whatever it is wrapped in. */
export const namesOf = (error: unknown): readonly string[] =>
  [...causesOf(error)].flatMap((cause) =>
    'type' in cause && typeof cause.type === 'string' ? [cause.type, cause.name] : [cause.name],
  );

/** What this says of a topic, if it speaks of one; brokers do not say of which. */
export const topicRefusalOf = (error: unknown): TopicRefusal | undefined =>
  namesOf(error)
    .map((name) => topicsFault.get(name))
    .find((refusal) => refusal !== undefined);

const codeOf = (error: unknown): PublishErrorCode => {
  if (error instanceof PublishError) return error.code;
  for (const name of namesOf(error)) {
    const code = recordsFault.get(name) ?? (brokerTrouble.has(name) ? 'BROKER_UNAVAILABLE' : undefined);
    if (code) return code;
    if (topicsFault.has(name)) return 'REFUSED';
  }
  return 'UNKNOWN';
};

export const toPublishError = (
  error: unknown,
  unacknowledged: readonly UnacknowledgedRecords[],
): PublishError => {
  // What this folder found out itself may come back wrapped by kafkajs.
  const known = causesOf(error).find((cause) => cause instanceof PublishError);
  if (known) {
    const { code, retriable, cause } = known;
    return new PublishError(code, { retriable, cause, unacknowledged });
  }
  const code = codeOf(error);
  const retriable =
    code === 'BROKER_UNAVAILABLE' ||
    (code === 'UNKNOWN' && namesOf(error).some((name) => healedByNewProducer.has(name)));
  return new PublishError(code, { retriable, cause: error, unacknowledged });
};
