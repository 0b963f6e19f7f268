import type { Config } from '../config/settings.ts';
import { requireBrokers } from '../infra/check-reachable.ts';
import type { Endpoints } from '../infra/infrastructure.ts';
import { topicRefusalOf } from '../kafka/publish-error.ts';
import { connectTopicAdmin, type TopicAdmin } from '../kafka/topic-admin.ts';
import type { Database } from '../postgres/database.ts';
import { type LostRecords, remedyOfLoss } from '../rebuild/live-lack.ts';
import { type LogBreakStatus, listLogBreaks } from '../relay-admin/list-log-breaks.ts';
import { type RelayStatus, readRelayStatus } from '../relay-admin/read-relay-status.ts';
import { type Topology, topicsOf } from '../streams/topology.ts';
import { listPauses, type ProjectionPause } from '../streams-postgres/pauses/projection-pause.ts';
import type { Adapters } from './adapters.ts';
import { type FillStatus, readFills } from './fill-status.ts';
import { projections } from './projections.ts';

/** The whole pipeline at a glance, in the order an event goes through it. */
export interface PipelineStatus {
  readonly outbox: {
    readonly rows: number;
    readonly rowsAreEstimated: boolean;
    readonly newestId: number;
    readonly newestAt: Date | null;
  };
  readonly relay: RelayStatus;
  readonly topics: readonly TopicStatus[];
  /** Why nothing is known of the topics; null when it is. */
  readonly brokerTrouble: string | null;
  /** Projections that an operator holds still. */
  readonly pausedProjections: readonly (ProjectionPause & { readonly projection: string })[];
  /** Keys of which nothing moves, by projection: parked behind a dead letter, or waiting for a version that is missing. */
  readonly standingKeys: readonly StandingKeys[];
  /** Projections with records that no window took: too late for it, or of a time too far in the future to be believed. */
  readonly outOfTime: readonly OutOfTime[];
  /** Topics that have lost events, until they are published again. */
  readonly logBreaks: readonly LogBreakStatus[];
  /** Records that are gone from the topics and that projections had not read: their partitions stand still. */
  readonly lost: readonly LostStatus[];
  /** Read models that are being filled, or wait for it. */
  readonly fills: readonly FillStatus[];
  readonly readModels: readonly {
    readonly table: string;
    readonly rows: number;
    readonly updatedAt: Date | null;
  }[];
}

interface StandingKeys {
  readonly projection: string;
  readonly because: 'parked' | 'version-missing';
  readonly keys: number;
  readonly records: number;
  readonly since: Date;
  /** One of them, to begin with. */
  readonly example: string;
  /** What that one waits for; null where it is parked. */
  readonly missingVersion: number | null;
}

interface OutOfTime {
  readonly projection: string;
  readonly lateRecords: number;
  readonly earlyRecords: number;
}

interface LostStatus extends LostRecords {
  readonly projection: string;
  readonly remedy: string;
}

interface TopicStatus {
  readonly projection: string;
  readonly topic: string;
  /** It has to be created; the other topics are read all the same. */
  readonly isMissing: boolean;
  readonly partitions: readonly {
    readonly partition: number;
    readonly startOffset: number;
    readonly endOffset: number;
    readonly checkpoint: number | null;
    readonly lag: number;
  }[];
  readonly lag: number;
}

/** Needs the database; brokers that do not answer are part of what it tells. */
export const readPipelineStatus = async (
  adapters: Adapters,
  config: Config,
  endpoints: Endpoints,
): Promise<PipelineStatus> => {
  const [outbox, relay, topics, pauses, standingKeys, outOfTime, logBreaks, fills, readModels] =
    await Promise.all([
      readOutbox(adapters.database),
      readRelayStatus(adapters.database, config.relay),
      readTopicsIfPossible(adapters, config, endpoints),
      listPauses(adapters.database),
      adapters.database.execute<StandingKeys>(standingKeysStatement),
      adapters.database.execute<OutOfTime>(outOfTimeStatement),
      listLogBreaks(adapters.database),
      readFills(adapters.database),
      readReadModels(adapters.database),
    ]);
  return {
    outbox,
    relay,
    ...topics,
    pausedProjections: [...pauses].map(([projection, pause]) => ({ projection, ...pause })),
    standingKeys,
    outOfTime,
    logBreaks,
    lost: lostIn(topics.topics, projections(config)),
    fills,
    readModels,
  };
};

const lostIn = (topics: readonly TopicStatus[], topologies: readonly Topology[]): readonly LostStatus[] =>
  topics.flatMap(({ projection, topic, partitions }) => {
    const topology = topologies.find(({ name }) => name === projection);
    if (!topology) return [];
    const remedy = remedyOfLoss(topology);
    return partitions.flatMap(({ partition, startOffset, checkpoint }) =>
      checkpoint !== null && checkpoint < startOffset
        ? [{ projection, topic, partition, checkpoint, firstOffset: startOffset, remedy }]
        : [],
    );
  });

/** Counting exactly takes a second per ten million rows; from here on PostgreSQL's own estimate is good enough. */
const exactRowsMax = 1_000_000;

const outboxStatement = {
  name: 'status-outbox',
  text: `
    with size as (select reltuples::bigint as estimate from pg_class where oid = 'outbox'::regclass)
    select case when size.estimate > $1 then size.estimate else (select count(*) from outbox) end as rows,
           size.estimate > $1 as "rowsAreEstimated",
           coalesce((select max(id) from outbox), 0) as "newestId",
           (select created_at from outbox order by id desc limit 1) as "newestAt"
    from size`,
};

const readOutbox = async (db: Database): Promise<PipelineStatus['outbox']> => {
  const [row] = await db.execute<PipelineStatus['outbox']>(outboxStatement, [exactRowsMax]);
  if (!row) throw new Error('The outbox is missing');
  return row;
};

const checkpointStatement = {
  name: 'status-checkpoints',
  text: `
    select projection, topic, partition, next_offset as "nextOffset"
    from projection_checkpoint join projection_live using (projection, version)`,
};

const readTopicsIfPossible = async (
  adapters: Adapters,
  config: Config,
  { kafkaBrokers }: Endpoints,
): Promise<Pick<PipelineStatus, 'topics' | 'brokerTrouble'>> => {
  try {
    // The client would try again and again before it says that nobody is there.
    await requireBrokers(kafkaBrokers, config);
    return { topics: await readTopics(adapters, config), brokerTrouble: null };
  } catch (error) {
    return { topics: [], brokerTrouble: (error as Error).message };
  }
};

const readTopics = async ({ database, kafka }: Adapters, config: Config): Promise<readonly TopicStatus[]> => {
  const checkpoints = await database.execute<{
    projection: string;
    topic: string;
    partition: number;
    nextOffset: number;
  }>(checkpointStatement);
  const admin = await connectTopicAdmin(kafka);
  try {
    const consumed = projections(config).flatMap((topology) =>
      topicsOf(topology).map((topic) => ({ projection: topology.name, topic })),
    );
    return await Promise.all(
      consumed.map(async ({ projection, topic }) => {
        const ends = await endOffsetsUnlessMissing(admin, topic);
        const partitions = (ends ?? [])
          .map(({ partition, start, offset }) => {
            const checkpoint = checkpoints.find(
              (candidate) =>
                candidate.projection === projection &&
                candidate.topic === topic &&
                candidate.partition === partition,
            );
            const next = checkpoint?.nextOffset ?? null;
            // A checkpoint behind the end is that of another log: all of this one is still to be read.
            const lag = next !== null && next > offset ? offset : offset - (next ?? 0);
            return { partition, startOffset: start, endOffset: offset, checkpoint: next, lag };
          })
          .sort((a, b) => a.partition - b.partition);
        const lag = partitions.reduce((sum, partition) => sum + partition.lag, 0);
        return { projection, topic, isMissing: ends === undefined, partitions, lag };
      }),
    );
  } finally {
    await admin.close();
  }
};

const endOffsetsUnlessMissing = (admin: TopicAdmin, topic: string) =>
  admin.endOffsets(topic).catch((error: unknown) => {
    if (topicRefusalOf(error) !== 'missing') throw error;
    return undefined;
  });

const standingKeysStatement = {
  name: 'status-standing-keys',
  text: `
    select projection, because, count(*) as keys, sum(records)::bigint as records, min(since) as since,
           (array_agg(key order by since))[1] as example,
           (array_agg(missing_version order by since))[1] as "missingVersion"
    from (
      select projection, version, 'parked' as because, key, records, parked_at as since, null::bigint as missing_version
      from projection_parked_key
      union all
      select projection, version, 'version-missing', key, records, changed_at, missing_version
      from projection_waiting_key
    ) standing
    join projection_live using (projection, version)
    group by projection, because
    order by projection, because`,
};

const outOfTimeStatement = {
  name: 'status-out-of-time',
  text: `
    select projection, sum(late_records)::bigint as "lateRecords", sum(early_records)::bigint as "earlyRecords"
    from projection_checkpoint join projection_live using (projection, version)
    group by projection
    having sum(late_records) + sum(early_records) > 0
    order by projection`,
};

const readModels = [
  'product_statistic',
  'product_trend',
  'product_momentum',
  'order_view',
  'order_payment',
  'order_receipt',
  'stock_level',
  'stock_outage',
];

const readModelStatement = {
  name: 'status-read-models',
  text: readModels
    .map(
      (table) =>
        `select '${table}' as "table", count(*) as rows, max(updated_at) as "updatedAt" from ${table}`,
    )
    .join(' union all '),
};

const readReadModels = (db: Database): Promise<PipelineStatus['readModels']> =>
  db.execute(readModelStatement);
