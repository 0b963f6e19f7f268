import type { Consumer, EachBatchPayload, Kafka } from 'kafkajs';
import type { Logger } from 'pino';
import type { BatchHandler, RawBatch, RecordSource } from '../streams/record-source.ts';

export interface ConsumerOptions {
  readonly groupId: string;
  readonly topics: readonly string[];
  readonly startFrom: 'earliest' | 'latest';
  readonly sessionTimeoutMs: number;
  readonly heartbeatIntervalMs: number;
  readonly log: Logger;
}

/** How long a fetch waits for records. The broker answers as soon as there is one; this bounds how long a stop waits. */
const fetchWaitMs = 250;

export const createRecordSource = (kafka: Kafka, options: ConsumerOptions): RecordSource => {
  const consumer = kafka.consumer({
    groupId: options.groupId,
    sessionTimeout: options.sessionTimeoutMs,
    heartbeatInterval: options.heartbeatIntervalMs,
    maxWaitTimeInMs: fetchWaitMs,
    allowAutoTopicCreation: false,
  });

  return {
    start: async (handle) => {
      await consumer.connect();
      await consumer.subscribe({
        topics: [...options.topics],
        fromBeginning: options.startFrom === 'earliest',
      });
      // kafkajs comes back from this call when the consumer has its place in the group.
      const joined = consumer.run({
        autoCommit: false,
        eachBatch: (payload) => passOn(consumer, payload, handle, options.log),
      });
      await waitForGroup(joined, options);
    },
    failed: new Promise((resolve) => {
      // kafkajs leaves a process alive with a dead consumer when it does not restart by itself.
      consumer.on(consumer.events.CRASH, ({ payload }) => {
        if (!payload.restart) resolve(payload.error);
      });
    }),
    stop: () => atMost(stopWaitMs, consumer.disconnect()),
  };
};

/** A consumer that still waits for its group cannot leave it; whatever it held is safe, so nobody has to wait along. */
const stopWaitMs = 5000;

const atMost = async (timeMs: number, work: Promise<void>): Promise<void> => {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeMs);
  });
  await Promise.race([work, over]);
  clearTimeout(timer);
};

/** Usually a matter of milliseconds, after which records flow. */
const groupWaitMs = 2000;

/**
 * Ready should mean that records flow. But a consumer that was killed keeps its place in the group until its session
 * ends, and the others wait for it: nothing is lost by that, and a start should not hang on it.
 */
const waitForGroup = async (joined: Promise<void>, options: ConsumerOptions): Promise<void> => {
  let isIn = false;
  const noticed = joined.then(() => {
    isIn = true;
  });
  await atMost(groupWaitMs, noticed);
  if (isIn) return;
  options.log.warn(
    { group: options.groupId, sessionTimeoutMs: options.sessionTimeoutMs },
    'The consumer group still counts a member that is gone; records flow when its session has ended',
  );
  noticed.then(
    () => options.log.info({ group: options.groupId }, 'Records flow'),
    (error: Error) =>
      options.log.error({ err: error, group: options.groupId }, 'The consumer cannot join its group'),
  );
};

const passOn = async (
  consumer: Consumer,
  payload: EachBatchPayload,
  handle: BatchHandler,
  log: Logger,
): Promise<void> => {
  const { topic, partition } = payload.batch;
  const outcome = await handle(toRawBatch(payload), {
    heartbeat: payload.heartbeat,
    isCurrent: () => payload.isRunning() && !payload.isStale(),
  });
  if (outcome.kind === 'abandoned') return;
  if (outcome.kind === 'seek') {
    consumer.seek({ topic, partition, offset: String(outcome.offset) });
    return;
  }
  // Only lag tools read this offset; the checkpoint in the database is the truth, so a failure here loses nothing.
  await consumer
    .commitOffsets([{ topic, partition, offset: String(outcome.nextOffset) }])
    .catch((error: Error) => log.debug({ err: error, topic, partition }, 'Kafka did not take the offset'));
};

const toRawBatch = ({ batch }: EachBatchPayload): RawBatch => ({
  topic: batch.topic,
  partition: batch.partition,
  records: batch.messages.map((message) => ({
    offset: Number(message.offset),
    key: message.key,
    value: message.value,
    headers: message.headers ?? {},
    timestampMs: Number(message.timestamp),
  })),
  // Aborted and control records have offsets too: the next one to read is after the batch, not after its last record.
  nextOffset: Number(batch.lastOffset()) + 1,
});
