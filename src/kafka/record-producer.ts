import type { Kafka } from 'kafkajs';
import { letBrokersTakeEncodedBatches } from './produce-encoded-batches.ts';
import type { ConnectionOptions } from './producer-connection.ts';
import type { OutgoingRecord } from './record-batch.ts';
import { SendQueue } from './send-queue.ts';

export type { OutgoingRecord, RecordInParts } from './record-batch.ts';

export interface SendOptions {
  /** From its turn on. What has no answer then counts as not sent: a duplicate is allowed, a loss is not. */
  readonly timeoutMs?: number;
}

/** Records that are encoded already, as far as that could be done before their turn; to be sent once or not at all. */
export interface PreparedSend {
  /** As `send` of the producer. */
  send(options?: SendOptions): Promise<void>;
}

export interface RecordProducer {
  /** Does the work on records now, so that they can go at once when their turn has come. */
  prepare(batches: ReadonlyMap<string, readonly OutgoingRecord[]>): PreparedSend;
  /**
   * Resolves when every replica that must have them has the records; order within a topic and key is kept, also between
   * sends that overlap: when one fails, those waiting behind it with records for the same topic fail too.
   * Rejects with a `PublishError`. While a topic is known to be refused, a send with records for it sends nothing.
   */
  send(batches: ReadonlyMap<string, readonly OutgoingRecord[]>, options?: SendOptions): Promise<void>;
  /**
   * Forgets what it knows of the topics, after what was sent before: the next send asks how many partitions there are. For
   * whoever has not sent for a while in which partitions may have been added.
   */
  renew(): Promise<void>;
  close(): Promise<void>;
}

export interface RecordProducerOptions extends ConnectionOptions {
  readonly batchBytesMax?: number;
  readonly roundBytesMax?: number;
}

export const createRecordProducer = (kafka: Kafka, options: RecordProducerOptions): RecordProducer => {
  letBrokersTakeEncodedBatches();
  const queue = new SendQueue(kafka, options);
  return {
    prepare: (records) => queue.prepare(records),
    send: (records, sendOptions) => queue.prepare(records).send(sendOptions),
    renew: () => queue.renew(),
    close: () => queue.close(),
  };
};
