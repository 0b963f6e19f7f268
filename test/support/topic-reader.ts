import { type EachBatchPayload, Kafka, logLevel } from 'kafkajs';
import { eventually } from './eventually.ts';

export interface ReadRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly key: string | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, string>>;
}

const readTimeoutMs = 60_000;

const clientOf = (brokers: readonly string[]): Kafka =>
  new Kafka({ brokers: [...brokers], connectionTimeout: 30_000, logLevel: logLevel.NOTHING });

/** How many records each partition of the topics has; topics that are not there have none. */
const readEnds = async (
  brokers: readonly string[],
  topics: readonly string[],
): Promise<ReadonlyMap<string, number>> => {
  const admin = clientOf(brokers).admin();
  await admin.connect();
  try {
    const existing = await admin.listTopics();
    const ends = new Map<string, number>();
    for (const topic of topics.filter((name) => existing.includes(name))) {
      // A topic that was made a moment ago may have no leader that the client knows of.
      for (const { partition, high } of await eventually(() => admin.fetchTopicOffsets(topic))) {
        if (Number(high) > 0) ends.set(`${topic}/${partition}`, Number(high));
      }
    }
    return ends;
  } finally {
    await admin.disconnect();
  }
};

/** How many records there are, without reading them. Nothing has expired: specs do not last that long. */
export const countRecords = async (brokers: readonly string[], topics: readonly string[]): Promise<number> =>
  (await readEnds(brokers, topics)).values().reduce((sum, end) => sum + end, 0);

/**
 * Everything in the topics from their beginning to their end at the time of asking, as any Kafka client sees it; the
 * records of a partition in their order.
 */
export const readTopics = async (
  brokers: readonly string[],
  topics: readonly string[],
): Promise<readonly ReadRecord[]> => {
  const ends = await readEnds(brokers, topics);
  const wanted = ends.values().reduce((sum, end) => sum + end, 0);
  if (wanted === 0) return [];

  // By place: whoever joins a group anew reads from the beginning again.
  const records = new Map<string, ReadRecord>();
  const take = ({ batch: { topic, partition, messages } }: EachBatchPayload): void => {
    const end = ends.get(`${topic}/${partition}`) ?? 0;
    for (const { offset, key, value, headers } of messages) {
      if (Number(offset) >= end) continue;
      records.set(`${topic}/${partition}/${offset}`, {
        topic,
        partition,
        offset: Number(offset),
        key: key?.toString() ?? null,
        value,
        headers: Object.fromEntries(
          Object.entries(headers ?? {}).map(([name, text]) => [name, String(text)]),
        ),
      });
    }
  };

  const consumer = clientOf(brokers).consumer({
    groupId: `reader-${topics[0]}-${Math.random()}`,
    maxWaitTimeInMs: 100,
  });
  let timer: NodeJS.Timeout | undefined;
  try {
    await consumer.connect();
    await consumer.subscribe({ topics: topicsOf(ends), fromBeginning: true });
    await new Promise<void>((resolve, reject) => {
      timer = setTimeout(
        () => reject(new Error(`Only ${records.size} of ${wanted} records could be read`)),
        readTimeoutMs,
      );
      consumer.on(consumer.events.CRASH, ({ payload }) => {
        if (!payload.restart) reject(payload.error);
      });
      consumer
        .run({
          autoCommit: false,
          eachBatch: async (payload) => {
            take(payload);
            if (records.size >= wanted) resolve();
          },
        })
        .catch(reject);
    });
  } finally {
    clearTimeout(timer);
    await consumer.disconnect();
  }
  return [...records.values()];
};

const topicsOf = (ends: ReadonlyMap<string, number>): string[] => [
  ...new Set(ends.keys().map((place) => place.slice(0, place.lastIndexOf('/')))),
];

export const readTopic = (brokers: readonly string[], topic: string): Promise<readonly ReadRecord[]> =>
  readTopics(brokers, [topic]);

/** Writes raw records, as a client that knows nothing of Millrace would. */
export const writeTopic = async (
  brokers: readonly string[],
  topic: string,
  messages: readonly { key: string | null; value: Buffer | null; timestamp?: string }[],
): Promise<void> => {
  const producer = clientOf(brokers).producer();
  await producer.connect();
  try {
    await producer.send({ topic, messages: [...messages] });
  } finally {
    await producer.disconnect();
  }
};
