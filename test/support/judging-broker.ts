import {
  PublishError,
  type PublishErrorCode,
  type TopicRefusal,
  type UnacknowledgedRecords,
} from '../../src/kafka/publish-error.ts';
import type { OutgoingRecord, RecordProducer } from '../../src/kafka/record-producer.ts';
import type { OutboxRow } from '../../src/relay/outbox-source.ts';
import { received } from './memory-broker.ts';
import { eventOf } from './write-aggregates.ts';

/** What a broker has against a record, or that the leader of its partition is not there. */
export type Objection = PublishErrorCode;

const partitions = 3;
const frameLength = 5;

/** Rows as a source gives them: one aggregate's versions ascend. Those of aggregates with `-stock` have another topic. */
export const rowsOf = (...labels: readonly string[]): readonly OutboxRow[] =>
  labels.map((label, index) => {
    const [aggregateId = '', version = '1'] = label.split('@');
    const { stream, version: aggregateVersion, ...event } = eventOf(aggregateId, Number(version));
    return { ...event, ...stream, aggregateVersion, id: index + 1, createdAt: new Date(0) } as OutboxRow;
  });

export const labelOf = ({ aggregateId, aggregateVersion }: OutboxRow): string =>
  `${aggregateId}@${aggregateVersion}`;

/**
 * Topics of three partitions that take what they have nothing against, batch by batch as the producer does it: a batch with
 * a record that is not wanted is refused as a whole, those of other partitions arrive beside it.
 */
export const createJudgingBroker = (rows: readonly OutboxRow[]) => {
  const labels = new Map(rows.map((row) => [row.payload.toString('base64'), labelOf(row)]));
  const arrived: string[] = [];
  const sends: (readonly string[])[] = [];
  const moods = {
    /** What is against a record. */
    objection: (_label: string): Objection | undefined => undefined,
    refusedTopics: new Map<string, TopicRefusal>(),
    /** Before anything is looked at; throws when the cluster is in trouble. */
    receive: (_labels: readonly string[]): void => undefined,
  };
  const labelOfRecord = (record: OutgoingRecord): string =>
    labels.get((received(record).value ?? Buffer.alloc(0)).subarray(frameLength).toString('base64')) ?? '?';

  const send = async (batches: ReadonlyMap<string, readonly OutgoingRecord[]>): Promise<void> => {
    const sent = new Map([...batches].map(([topic, records]) => [topic, records.map(labelOfRecord)]));
    sends.push([...sent.values()].flat());
    moods.receive([...sent.values()].flat());
    const refusedTopics = new Map([...moods.refusedTopics].filter(([topic]) => sent.has(topic)));
    if (refusedTopics.size > 0) throw new PublishError('REFUSED', { retriable: false, refusedTopics });
    const failures: UnacknowledgedRecords[] = [];
    let code: Objection | undefined;
    for (const [topic, ofTopic] of sent) {
      for (const { partition, positions } of byPartition(ofTopic)) {
        const batch = positions.map((position) => ofTopic[position] ?? '?');
        const objection = batch.map(moods.objection).find((found) => found !== undefined);
        const isRefused = objection !== 'BROKER_UNAVAILABLE';
        if (objection) failures.push({ topic, partition, positions, reason: objection, isRefused });
        else arrived.push(...batch);
        code ??= objection;
      }
    }
    const retriable = code === 'BROKER_UNAVAILABLE';
    if (code) throw new PublishError(code, { retriable, unacknowledged: failures });
  };
  const producer: RecordProducer = {
    send,
    prepare: (batches) => ({ send: () => send(batches) }),
    renew: async () => {},
    close: async () => {},
  };
  return { arrived, sends, moods, producer };
};

const byPartition = (labels: readonly string[]) => {
  const positions = Map.groupBy(labels.keys(), (position) => partitionOf(labels[position] ?? ''));
  return [...positions].map(([partition, found]) => ({ partition, positions: found }));
};

const partitionOf = (label: string): number =>
  Buffer.from(label.split('@')[0] ?? '').reduce((sum, byte) => sum + byte, 0) % partitions;
