import { readdirSync, readFileSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { Kafka, logLevel } from 'kafkajs';
import { BatchView } from '../../src/kafka/batch-view.ts';
import { connectTopicAdmin } from '../../src/kafka/topic-admin.ts';
import { eventually } from './eventually.ts';

const client = (brokers: readonly string[]): Kafka =>
  new Kafka({ brokers: [...brokers], connectionTimeout: 30_000, logLevel: logLevel.NOTHING });

/** Deletes topics and makes them anew under the same names. */
export const recreateTopics = async (
  brokers: readonly string[],
  { topics, partitions }: { readonly topics: readonly string[]; readonly partitions: number },
): Promise<void> => {
  const kafka = client(brokers);
  const admin = kafka.admin();
  await admin.connect();
  try {
    await admin.deleteTopics({ topics: [...topics] });
    await eventually(
      async () => {
        const left = new Set(await admin.listTopics());
        if (topics.some((topic) => left.has(topic))) throw new Error('The topics are still there');
      },
      { timeoutMs: 60_000 },
    );
  } finally {
    await admin.disconnect();
  }
  const maker = await connectTopicAdmin(kafka);
  await maker
    .create(
      topics.map((topic) => ({
        topic,
        partitions,
        replicationFactor: 1,
        minInsyncReplicas: 1,
        retentionMs: 3_600_000,
      })),
    )
    .finally(() => maker.close());
};

/** Where the partitions of a topic end. */
export const topicEnds = async (
  brokers: readonly string[],
  topic: string,
): Promise<ReadonlyMap<number, number>> => {
  const admin = await connectTopicAdmin(client(brokers));
  try {
    return new Map((await admin.endOffsets(topic)).map(({ partition, offset }) => [partition, offset]));
  } finally {
    await admin.close();
  }
};

/**
 * Takes the last batches of a topic's partitions away, as a power cut does that comes before they were written to the disk.
 * The broker must not run. Answers with how many records are gone.
 */
export const loseTail = (logDir: string, topic: string, batchesKept: (batches: number) => number): number => {
  let lost = 0;
  for (const name of readdirSync(logDir)) {
    if (!name.startsWith(`${topic}-`)) continue;
    const folder = join(logDir, name);
    const newest = readdirSync(folder)
      .filter((file) => file.endsWith('.log'))
      .sort()
      .at(-1);
    if (newest === undefined) continue;
    const file = join(folder, newest);
    const batches = batchesOf(readFileSync(file));
    const gone = batches.slice(batchesKept(batches.length));
    const [first] = gone;
    if (!first) continue;
    truncateSync(file, first.start);
    lost += gone.reduce((sum, { records }) => sum + records, 0);
  }
  return lost;
};

const batchesOf = (bytes: Buffer): readonly BatchView[] => {
  const batches: BatchView[] = [];
  for (let batch = BatchView.at(bytes, 0); batch; batch = BatchView.at(bytes, batch.end)) batches.push(batch);
  return batches;
};
