import { Kafka, logLevel } from 'kafkajs';

export interface ReadRecord {
  readonly partition: number;
  readonly key: string | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, string>>;
}

/** Everything in a topic from its beginning to its end at the time of asking, as any Kafka client sees it. */
export const readTopic = async (
  brokers: readonly string[],
  topic: string,
): Promise<readonly ReadRecord[]> => {
  const kafka = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING });
  const admin = kafka.admin();
  await admin.connect();
  const ends = await admin.fetchTopicOffsets(topic).finally(() => admin.disconnect());
  const wanted = ends.reduce((sum, { high, low }) => sum + Number(high) - Number(low), 0);
  if (wanted === 0) return [];

  const records: ReadRecord[] = [];
  const consumer = kafka.consumer({ groupId: `reader-${topic}-${Math.random()}`, maxWaitTimeInMs: 100 });
  await consumer.connect();
  try {
    await consumer.subscribe({ topic, fromBeginning: true });
    await new Promise<void>((resolve, reject) => {
      consumer
        .run({
          autoCommit: false,
          eachMessage: async ({ partition, message }) => {
            records.push({
              partition,
              key: message.key?.toString() ?? null,
              value: message.value,
              headers: Object.fromEntries(
                Object.entries(message.headers ?? {}).map(([name, value]) => [name, String(value)]),
              ),
            });
            if (records.length >= wanted) resolve();
          },
        })
        .catch(reject);
    });
  } finally {
    await consumer.disconnect();
  }
  return records;
};

/** Writes raw records, as a client that knows nothing of Millrace would. */
export const writeTopic = async (
  brokers: readonly string[],
  topic: string,
  messages: readonly { key: string | null; value: Buffer | null }[],
): Promise<void> => {
  const producer = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING }).producer();
  await producer.connect();
  try {
    await producer.send({ topic, messages: [...messages] });
  } finally {
    await producer.disconnect();
  }
};
