import { Kafka, logLevel } from 'kafkajs';

/** Does what retention does: takes everything out of the topics that is there now. Answers with how many records that were. */
export const loseRecords = async (brokers: readonly string[], topics: readonly string[]): Promise<number> => {
  const admin = new Kafka({
    brokers: [...brokers],
    connectionTimeout: 30_000,
    logLevel: logLevel.NOTHING,
  }).admin();
  await admin.connect();
  let lost = 0;
  try {
    for (const topic of topics) {
      const full = (await admin.fetchTopicOffsets(topic)).filter(
        ({ high, low }) => Number(high) > Number(low),
      );
      if (full.length === 0) continue;
      await admin.deleteTopicRecords({
        topic,
        partitions: full.map(({ partition, high }) => ({ partition, offset: high })),
      });
      lost += full.reduce((sum, { high, low }) => sum + Number(high) - Number(low), 0);
    }
  } finally {
    await admin.disconnect();
  }
  return lost;
};
