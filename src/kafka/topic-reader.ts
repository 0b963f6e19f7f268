import type { Kafka } from 'kafkajs';

/** A record as it lies in a topic. */
export interface StoredRecord {
  readonly offset: number;
  readonly timestampMs: number;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  /** Names may come twice, and values may be missing. */
  readonly headers: readonly (readonly [name: string, value: Buffer | null])[];
}

/** A stretch of one partition. */
export interface OffsetRange {
  readonly topic: string;
  readonly partition: number;
  readonly start: number;
  /** The offset after the last one. */
  readonly end: number;
}

/** Reads what is in topics now, for people who look: it belongs to no group, commits nothing and moves nobody. */
export interface TopicReader {
  /**
   * What there is of these topics now, by topic and partition; a topic that is not there has none. With `sinceMs`, records
   * that the broker got before that time are left out.
   */
  ranges(topics: readonly string[], options?: { readonly sinceMs?: number }): Promise<readonly OffsetRange[]>;
  /** The records of a range in order, a few megabytes at a time; the next ones are fetched when they are asked for. */
  read(range: OffsetRange): AsyncGenerator<readonly StoredRecord[]>;
  close(): Promise<void>;
}

/** The brokers did not answer, or not in time; trying again may help. */
export class TopicReadError extends Error {
  override readonly name = 'TopicReadError';
  readonly retriable = true;
}

/** What one fetch brings at most, unless a single batch is larger. */
const fetchBytesMax = 4 * 1024 * 1024;
/** The broker answers at once, because what is asked for is there; kafkajs takes this for the time an answer may take. */
const fetchWaitMs = 10_000;
/** Answers without a record, though there should be some, before it is given up. */
const emptyFetchesMax = 5;
const metadataMaxAgeMs = 60_000;
/** Nobody writes here in transactions; if somebody does, the end of a range is the end of the log all the same. */
const readUncommitted = 0;

interface FetchedRecord {
  readonly offset: string;
  readonly timestamp: string;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, Buffer | null | readonly (Buffer | null)[]>>;
  readonly isControlRecord: boolean;
}

interface FetchAnswer {
  readonly responses: readonly {
    readonly partitions: readonly { readonly messages: readonly FetchedRecord[] }[];
  }[];
}

interface TopicOffsets {
  readonly topic: string;
  readonly partitions: readonly { readonly partition: number; readonly offset: string }[];
}

/** The part of kafkajs's cluster that is used here. */
interface Cluster {
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  refreshMetadata(): Promise<void>;
  metadata(): Promise<{ readonly topicMetadata: readonly { readonly topic: string }[] }>;
  addMultipleTargetTopics(topics: readonly string[]): Promise<void>;
  findTopicPartitionMetadata(topic: string): readonly { readonly partitionId: number }[];
  findLeaderForPartitions(topic: string, partitions: readonly number[]): Readonly<Record<string, unknown>>;
  findBroker(options: { nodeId: string }): Promise<{ fetch(options: object): Promise<FetchAnswer> }>;
  fetchTopicsOffset(topics: readonly object[]): Promise<readonly TopicOffsets[]>;
  retrier<T>(attempt: () => Promise<T>): Promise<T>;
}

export const connectTopicReader = async (kafka: Kafka): Promise<TopicReader> => {
  const cluster = createCluster(kafka);
  await cluster.connect().catch(explain);
  return {
    ranges: (topics, { sinceMs } = {}) => findRanges(cluster, topics, sinceMs),
    read: (range) => readRange(cluster, range),
    close: () => cluster.disconnect(),
  };
};

/** kafkajs makes a cluster for every producer, consumer and admin, and gives none of them out: it is found by its name. */
const createCluster = (kafka: Kafka): Cluster => {
  const made = Object.getOwnPropertySymbols(kafka).find(
    ({ description }) => description === 'private:Kafka:createCluster',
  );
  if (!made) throw new Error('This version of kafkajs makes its clusters in another way');
  const create = (kafka as unknown as Record<symbol, (options: object) => Cluster>)[made];
  if (!create) throw new Error('This version of kafkajs makes its clusters in another way');
  return create({
    allowAutoTopicCreation: false,
    metadataMaxAge: metadataMaxAgeMs,
    isolationLevel: readUncommitted,
  });
};

const explain = (cause: Error): never => {
  throw new TopicReadError(`Kafka cannot be read: ${cause.message}`, { cause });
};

/** Leaders move: the next attempt asks anew who they are. */
const withLeaders = <T>(cluster: Cluster, attempt: () => Promise<T>): Promise<T> =>
  cluster
    .retrier(async () => {
      try {
        return await attempt();
      } catch (error) {
        await cluster.refreshMetadata();
        throw error;
      }
    })
    .catch(explain);

const findRanges = async (
  cluster: Cluster,
  wanted: readonly string[],
  sinceMs: number | undefined,
): Promise<readonly OffsetRange[]> => {
  // Asked for by name, a topic that is not there would be waited for.
  const { topicMetadata } = await cluster.metadata().catch(explain);
  const there = new Set(topicMetadata.map(({ topic }) => topic));
  const topics = wanted.filter((topic) => there.has(topic));
  if (topics.length === 0) return [];
  await cluster.addMultipleTargetTopics(topics).catch(explain);
  return withLeaders(cluster, async () => {
    const partitionsOf = (topic: string) =>
      cluster.findTopicPartitionMetadata(topic).map(({ partitionId }) => ({ partition: partitionId }));
    const ask = (from: object) =>
      cluster.fetchTopicsOffset(topics.map((topic) => ({ topic, partitions: partitionsOf(topic), ...from })));
    const starts = offsetsOf(
      await ask(sinceMs === undefined ? { fromBeginning: true } : { fromTimestamp: sinceMs }),
    );
    const ends = offsetsOf(await ask({ fromBeginning: false }));
    return topics.flatMap((topic) =>
      partitionsOf(topic)
        .map(({ partition }) => partition)
        .sort((a, b) => a - b)
        .map((partition) => {
          const end = ends.get(`${topic}/${partition}`) ?? 0;
          const start = starts.get(`${topic}/${partition}`) ?? -1;
          // Where nothing is as young as that, the broker answers −1.
          return { topic, partition, start: start < 0 ? end : start, end };
        }),
    );
  });
};

const offsetsOf = (answer: readonly TopicOffsets[]): ReadonlyMap<string, number> =>
  new Map(
    answer.flatMap(({ topic, partitions }) =>
      partitions.map(({ partition, offset }) => [`${topic}/${partition}`, Number(offset)] as const),
    ),
  );

const readRange = async function* (
  cluster: Cluster,
  { topic, partition, start, end }: OffsetRange,
): AsyncGenerator<readonly StoredRecord[]> {
  await cluster.addMultipleTargetTopics([topic]).catch(explain);
  let next = start;
  let emptyFetches = 0;
  while (next < end) {
    const fetched = await fetchFrom(cluster, { topic, partition, offset: next });
    if (fetched === 'gone') {
      const first = await firstOffset(cluster, { topic, partition });
      // Not what retention has taken away in the meantime, but an offset that never was.
      if (first <= next) return;
      next = first;
      continue;
    }
    const last = Number(fetched.at(-1)?.offset ?? -1);
    if (last < next) {
      if (++emptyFetches > emptyFetchesMax)
        throw new TopicReadError(
          `Kafka has nothing at ${topic}/${partition}@${next}, though it ends at ${end}`,
        );
      continue;
    }
    emptyFetches = 0;
    const from = next;
    next = last + 1;
    const records = fetched
      // What transactions write about themselves has offsets, too, and is no record.
      .filter(({ isControlRecord }) => !isControlRecord)
      .map(toStoredRecord)
      .filter(({ offset }) => offset >= from && offset < end);
    if (records.length > 0) yield records;
  }
};

interface Position {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

const fetchFrom = (
  cluster: Cluster,
  { topic, partition, offset }: Position,
): Promise<readonly FetchedRecord[] | 'gone'> =>
  withLeaders(cluster, async () => {
    const [nodeId] = Object.keys(cluster.findLeaderForPartitions(topic, [partition]));
    if (nodeId === undefined) return 'gone';
    const broker = await cluster.findBroker({ nodeId });
    try {
      const { responses } = await broker.fetch({
        isolationLevel: readUncommitted,
        maxWaitTime: fetchWaitMs,
        minBytes: 1,
        maxBytes: fetchBytesMax,
        topics: [
          { topic, partitions: [{ partition, fetchOffset: String(offset), maxBytes: fetchBytesMax }] },
        ],
      });
      return responses[0]?.partitions[0]?.messages ?? [];
    } catch (error) {
      if (typeOf(error) === 'OFFSET_OUT_OF_RANGE') return 'gone';
      throw error;
    }
  });

const firstOffset = async (
  cluster: Cluster,
  { topic, partition }: { topic: string; partition: number },
): Promise<number> => {
  const answer = await withLeaders(cluster, () =>
    cluster.fetchTopicsOffset([{ topic, partitions: [{ partition }], fromBeginning: true }]),
  );
  return offsetsOf(answer).get(`${topic}/${partition}`) ?? 0;
};

const typeOf = (error: unknown): unknown =>
  typeof error === 'object' && error !== null && 'type' in error ? error.type : undefined;

const toStoredRecord = ({ offset, timestamp, key, value, headers }: FetchedRecord): StoredRecord => ({
  offset: Number(offset),
  timestampMs: Number(timestamp),
  key,
  value,
  headers: Object.entries(headers).flatMap(([name, held]) =>
    // kafkajs lists the values of a name that comes several times.
    (Array.isArray(held) ? held : [held]).map((one) => [name, one] as const),
  ),
});
