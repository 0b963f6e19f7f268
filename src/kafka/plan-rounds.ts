import { EncodedBatch } from './encoded-batch.ts';
import { murmur2, partitionOfKey, positive } from './murmur2.ts';
import { type OutgoingRecord, sizeOfRecord } from './record-batch.ts';

/** Batches that go at the same time: at most one per partition, because a produce request takes no more. */
export type Round = readonly EncodedBatch[];

export interface RoundLimits {
  /** A larger batch is cut; a record that is larger alone goes alone, so the broker's refusal says which it was. */
  readonly batchBytesMax: number;
  readonly roundBytesMax: number;
}

/** Puts the records of one topic into batches by partition, in their order, cut where a batch is full. */
const cutIntoBatches = (
  topic: string,
  records: readonly OutgoingRecord[],
  options: { partitionOf: Partitioner; batchBytesMax: number },
): readonly EncodedBatch[] => {
  const batches: EncodedBatch[] = [];
  const open: (EncodedBatch | undefined)[] = [];
  for (let position = 0; position < records.length; position++) {
    const record = records[position] as OutgoingRecord;
    const partition = options.partitionOf(record);
    const size = sizeOfRecord(record);
    let batch = open[partition];
    if (batch === undefined || (batch.length > 0 && batch.bytesWith(size) > options.batchBytesMax)) {
      batch = new EncodedBatch({ topic, partition, records });
      open[partition] = batch;
      batches.push(batch);
    }
    batch.add({ position, size });
  }
  return batches;
};

export const planRounds = (
  records: ReadonlyMap<string, readonly OutgoingRecord[]>,
  partitioners: (topic: string) => Partitioner,
  limits: RoundLimits,
): readonly Round[] => {
  const rounds: { batches: EncodedBatch[]; bytes: number }[] = [];
  for (const [topic, ofTopic] of records) {
    const nextRound = new Map<number, number>();
    const batches = cutIntoBatches(topic, ofTopic, {
      partitionOf: partitioners(topic),
      batchBytesMax: limits.batchBytesMax,
    });
    for (const batch of batches) {
      let index = nextRound.get(batch.partition) ?? 0;
      while ((rounds[index]?.bytes ?? 0) > 0 && roundWith(rounds[index], batch) > limits.roundBytesMax)
        index++;
      rounds[index] ??= { batches: [], bytes: 0 };
      const round = rounds[index] as { batches: EncodedBatch[]; bytes: number };
      round.batches.push(batch);
      round.bytes += batch.bytes;
      nextRound.set(batch.partition, index + 1);
    }
  }
  return rounds.map(({ batches }) => batches);
};

const roundWith = (round: { bytes: number } | undefined, batch: EncodedBatch): number =>
  (round?.bytes ?? 0) + batch.bytes;

/** Keys' bytes are needed for a moment only. */
let scratch = Buffer.allocUnsafeSlow(1024);

export type Partitioner = (record: OutgoingRecord) => number;

/** As the Java client and kafkajs choose: by the key's hash, and in turn where there is no key; unless the record names one. */
export const createPartitioner = (partitions: number): Partitioner => {
  let turn = 0;
  return (record) => {
    if ('bytes' in record) return partitionOfKey(record, partitions);
    if (record.partition !== undefined) return record.partition;
    return record.key === null ? turn++ % partitions : positive(hashOf(record.key)) % partitions;
  };
};

const hashOf = (key: Buffer | string): number => {
  if (typeof key !== 'string') return murmur2(key, 0, key.length);
  // No character takes more than three bytes per unit of length.
  if (key.length * 3 > scratch.length) scratch = Buffer.allocUnsafeSlow(key.length * 3);
  return murmur2(scratch, 0, scratch.write(key, 0, 'utf8'));
};
