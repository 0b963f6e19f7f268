import type { Message } from 'kafkajs';
import type { EncodedBatch } from './encoded-batch.ts';
import { PublishError } from './publish-error.ts';

const probe = { value: null };

/**
 * kafkajs asks an array of messages for one without a value and then folds it into arrays by partition, copying them at
 * each message. Batches stand in for that array: none is without a value, and they are by partition already.
 */
export const asMessages = (batches: readonly EncodedBatch[], partitionCount: () => number): Message[] => {
  const standIn = {
    find: () => undefined,
    reduce: (group: (groups: object, message: Message) => object): object => {
      // Has the partitioner called, and so the number of partitions noted.
      group({}, probe);
      const missing = batches.find(({ partition }) => partition >= partitionCount());
      // kafkajs would leave such records out without a word.
      if (missing) throw withoutPartition(missing);
      return Object.fromEntries(batches.map((batch) => [batch.partition, batch]));
    },
  };
  return standIn as unknown as Message[];
};

/** The topic was made anew, smaller; the next send looks it up again. */
const withoutPartition = ({ topic, partition }: EncodedBatch): PublishError =>
  new PublishError('UNKNOWN', {
    retriable: true,
    cause: new Error(`Topic ${topic} has no partition ${partition} any more`),
  });
