import { setTimeout as pause } from 'node:timers/promises';
import type { Broker, Kafka } from 'kafkajs';
import { UnsupportedRecords } from '../streams/record.ts';
import { DamageWatch } from './damage-watch.ts';
import type { FetchedPartition } from './fetch-response.ts';
import type { HeaderEntry, ReadRecord } from './fetched-record.ts';
import { fetchPartitions, outOfRange } from './own-fetches.ts';
import { RecordSetReader, recordSetFrom } from './record-set.ts';
import { findTopicIds } from './topic-ids.ts';

/** A record as it lies in a topic. */
export interface StoredRecord {
  readonly offset: number;
  readonly timestampMs: number;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  /** Names may come twice, and values may be missing. */
  readonly headers: readonly HeaderEntry[];
  /** Set where the bytes could not even be taken apart into records, and tells why: this one stands for all of those. */
  readonly damage?: Error;
}

/** A stretch of one partition. */
export interface OffsetRange {
  readonly topic: string;
  readonly partition: number;
  readonly start: number;
  /** The offset after the last one. */
  readonly end: number;
  /** The topic that is meant; whichever has the name now where it is not told. */
  readonly topicId?: string | undefined;
}

export interface ReadOptions {
  /** Fail with {@link RecordsGone} where records of the range are gone; otherwise what is left of it is read. */
  readonly requireAll?: boolean;
}

/**
 * Reads what is in topics now, for people who look: it belongs to no group, commits nothing and moves nobody. It reads as
 * projections do: whatever they can unpack, and only what is committed.
 */
export interface TopicReader {
  /**
   * What there is of these topics now, by topic and partition; a topic that is not there has none. With `sinceMs`, records
   * that the broker got before that time are left out. What belongs to open transactions, or lies behind such, is not there yet.
   */
  ranges(topics: readonly string[], options?: { readonly sinceMs?: number }): Promise<readonly OffsetRange[]>;
  /**
   * The records of a range in order, a few megabytes at a time; the next ones are fetched when they are asked for. Returns
   * the offset to go on with: the end of the range, or the beginning of a transaction that is still open.
   */
  read(range: OffsetRange, options?: ReadOptions): AsyncGenerator<readonly StoredRecord[], number>;
  close(): Promise<void>;
}

/** The brokers did not answer, or not in time; trying again may help. */
export class TopicReadError extends Error {
  override readonly name: string = 'TopicReadError';
  readonly retriable: boolean = true;
}

/** There are records that this release cannot read, and whoever passed over them would show less than there is. */
export class UnsupportedTopicError extends TopicReadError {
  override readonly name = 'UnsupportedTopicError';
  override readonly retriable = false;
}

/** Records that were asked for are not in the topic any more, or it is another topic of that name: trying again does not help. */
export class RecordsGone extends Error {
  override readonly name = 'RecordsGone';
}

/** What one fetch brings at most, unless a single batch is larger. */
const fetchBytesMax = 4 * 1024 * 1024;
/** A broker waits as long for records that should be there; kafkajs takes this for the time an answer may take. */
const fetchWaitMs = 10_000;
/** Answers without a record, though there should be some, before it is given up. */
const emptyFetchesMax = 5;
const metadataMaxAgeMs = 60_000;
/** As projections read. kafkajs asks for the end of a topic as well as for records with it. */
const readCommitted = 1;

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
  findBroker(options: { nodeId: string }): Promise<Broker>;
  fetchTopicsOffset(topics: readonly object[]): Promise<readonly TopicOffsets[]>;
  retrier<T>(attempt: () => Promise<T>): Promise<T>;
}

export const connectTopicReader = async (kafka: Kafka): Promise<TopicReader> => {
  const cluster = createCluster(kafka);
  await cluster.connect().catch(explain);
  return {
    ranges: (topics, { sinceMs } = {}) => findRanges(cluster, topics, sinceMs),
    read: (range, options) => readRange(cluster, range, options),
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
    isolationLevel: readCommitted,
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
    const ids = await findTopicIds(cluster, topics);
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
          return { topic, partition, start: start < 0 ? end : start, end, topicId: ids.get(topic) };
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
  { topic, partition, start, end, topicId: meant }: OffsetRange,
  { requireAll = false }: ReadOptions = {},
): AsyncGenerator<readonly StoredRecord[], number> {
  await cluster.addMultipleTargetTopics([topic]).catch(explain);
  const topicId = await requireTopic(cluster, topic, meant);
  let next = start;
  let emptyFetches = 0;
  const damage = new DamageWatch();
  while (next < end) {
    const isSilent = emptyFetches > 0;
    const fetched = await fetchFrom(cluster, { topic, topicId, partition, offset: next }, { isSilent });
    if (fetched === 'gone') {
      const first = await firstOffset(cluster, { topic, partition });
      if (requireAll)
        throw new RecordsGone(
          first > next
            ? `The records ${next} to ${Math.min(first, end) - 1} of ${topic}/${partition} are gone: the topic starts at ${first}`
            : `The topic ${topic}/${partition} ends before ${next}, though it had records up to ${end - 1}`,
        );
      // Not what retention has taken away in the meantime, but an offset that never was.
      if (first <= next) return end;
      next = first;
      continue;
    }
    const { records, nextOffset, fetchAgainAfterMs } = readFrom(fetched, next, damage);
    if (fetchAgainAfterMs !== undefined) await pause(fetchAgainAfterMs);
    else if (nextOffset === next) {
      if (isInOpenTransaction(fetched, next)) return next;
      if (++emptyFetches > emptyFetchesMax)
        throw new TopicReadError(
          `Kafka has nothing at ${topic}/${partition}@${next}, though it ends at ${end}`,
        );
      continue;
    }
    emptyFetches = 0;
    next = nextOffset;
    const wanted = records.filter(({ offset }) => offset < end).map(toStoredRecord);
    if (wanted.length > 0) yield wanted;
  }
  return end;
};

/** The id of the topic that has the name now; fails where another one is meant. */
const requireTopic = async (cluster: Cluster, topic: string, meant: string | undefined): Promise<string> => {
  const topicId = (await withLeaders(cluster, () => findTopicIds(cluster, [topic]))).get(topic);
  if (topicId === undefined) throw new TopicReadError(`The brokers know no topic ${topic}`);
  if (meant !== undefined && meant !== topicId)
    throw new RecordsGone(`The topic ${topic} was deleted and made anew: what it had is gone`);
  return topicId;
};

interface Position {
  readonly topic: string;
  readonly topicId: string;
  readonly partition: number;
  readonly offset: number;
}

/** The broker answers at once. When it should have something and has not, it is given the time to get it. */
const fetchFrom = (
  cluster: Cluster,
  { topic, topicId, partition, offset }: Position,
  { isSilent }: { isSilent: boolean },
): Promise<FetchedPartition | 'gone'> =>
  withLeaders(cluster, async () => {
    const [nodeId] = Object.keys(cluster.findLeaderForPartitions(topic, [partition]));
    if (nodeId === undefined) return 'gone';
    const [fetched] = await fetchPartitions(await cluster.findBroker({ nodeId }), {
      maxWaitTime: fetchWaitMs,
      minBytes: isSilent ? 1 : 0,
      maxBytes: fetchBytesMax,
      topics: [
        {
          topic,
          partitions: [{ partition, fetchOffset: String(offset), maxBytes: fetchBytesMax, topicId }],
        },
      ],
    });
    if (!fetched) throw new Error(`The broker says nothing of ${topic}/${partition}`);
    return fetched.errorCode === outOfRange ? 'gone' : fetched;
  });

interface FoundRecords {
  readonly records: readonly ReadRecord[];
  readonly nextOffset: number;
  /** Set where a damaged batch stands there. */
  readonly fetchAgainAfterMs?: number;
}

const readFrom = (fetched: FetchedPartition, fromOffset: number, damage: DamageWatch): FoundRecords => {
  const records: ReadRecord[] = [];
  const set = recordSetFrom(fetched, fromOffset);
  if (!set) return { records, nextOffset: fromOffset };
  const reader = new RecordSetReader(set, { fromOffset, aborted: fetched.aborted });
  for (;;) {
    reader.readInto(records, Number.POSITIVE_INFINITY);
    const { nextOffset, suspect } = reader;
    if (nextOffset > fromOffset) damage.pass();
    if (!suspect) return { records, nextOffset };
    const verdict = damage.judge(suspect);
    if (!verdict.isCondemned) return { records, nextOffset, fetchAgainAfterMs: verdict.fetchAgainAfterMs };
    reader.condemn();
  }
};

const isInOpenTransaction = (
  { lastStableOffset, highWatermark }: FetchedPartition,
  offset: number,
): boolean => lastStableOffset <= offset && offset < highWatermark;

const firstOffset = async (
  cluster: Cluster,
  { topic, partition }: { topic: string; partition: number },
): Promise<number> => {
  const answer = await withLeaders(cluster, () =>
    cluster.fetchTopicsOffset([{ topic, partitions: [{ partition }], fromBeginning: true }]),
  );
  return offsetsOf(answer).get(`${topic}/${partition}`) ?? 0;
};

const toStoredRecord = (record: ReadRecord): StoredRecord => {
  const { offset, timestampMs, key, value } = record;
  if ('damage' in record && record.damage instanceof UnsupportedRecords)
    throw new UnsupportedTopicError(record.damage.message, { cause: record.damage });
  const headers = record.headerEntries();
  return 'damage' in record
    ? { offset, timestampMs, key, value, headers, damage: record.damage }
    : { offset, timestampMs, key, value, headers };
};
