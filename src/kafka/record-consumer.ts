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
      const joined = new Promise<void>((resolve) => {
        const forget = consumer.on(consumer.events.GROUP_JOIN, () => {
          forget();
          resolve();
        });
      });
      await consumer.run({
        autoCommit: false,
        eachBatch: (payload) => passOn(consumer, payload, handle, options.log),
      });
      // Ready means that records flow: the first event need not wait for the group to form.
      await joined;
    },
    failed: new Promise((resolve) => {
      // kafkajs leaves a process alive with a dead consumer when it does not restart by itself.
      consumer.on(consumer.events.CRASH, ({ payload }) => {
        if (!payload.restart) resolve(payload.error);
      });
    }),
    stop: () => consumer.disconnect(),
  };
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
