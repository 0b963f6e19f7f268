import type { Config } from '../config/settings.ts';
import { connectTopicAdmin } from '../kafka/topic-admin.ts';
import type { Database } from '../postgres/database.ts';
import { loadOutboxCursor } from '../relay/outbox-cursor.ts';
import { countPending } from '../relay/read-outbox-delta.ts';
import { mainRelayLease } from '../relay/relay.ts';
import type { Adapters } from './adapters.ts';
import { projections, topicsOf } from './start-projector.ts';

/** The whole pipeline at a glance, in the order an event goes through it. */
export interface PipelineStatus {
  readonly outbox: {
    readonly rows: number;
    readonly rowsAreEstimated: boolean;
    readonly newestId: number;
    readonly newestAt: Date | null;
  };
  readonly relay: {
    readonly cursor: { readonly from: string; readonly to: string; readonly lastId: number };
    readonly pending: number;
    readonly oldestPendingAt: Date | null;
    /** Events that are retried, and those that wait behind them. */
    readonly failed: number;
    /** Events that hold their aggregate until an operator decides. */
    readonly dead: number;
    readonly heldBy: string | null;
    readonly heldUntil: Date | null;
  };
  readonly topics: readonly TopicStatus[];
  readonly readModels: readonly {
    readonly table: string;
    readonly rows: number;
    readonly updatedAt: Date | null;
  }[];
}

interface TopicStatus {
  readonly projection: string;
  readonly topic: string;
  readonly partitions: readonly {
    readonly partition: number;
    readonly endOffset: number;
    readonly checkpoint: number | null;
    readonly lag: number;
  }[];
  readonly lag: number;
}

export const readPipelineStatus = async (adapters: Adapters, config: Config): Promise<PipelineStatus> => {
  const [outbox, relay, topics, readModels] = await Promise.all([
    readOutbox(adapters.database),
    readRelay(adapters.database),
    readTopics(adapters, config),
    readReadModels(adapters.database),
  ]);
  return { outbox, relay, topics, readModels };
};

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

const leaseStatement = {
  name: 'status-lease',
  text: `
    select locked_by as "heldBy", locked_until as "heldUntil" from scheduler_lock
    where name = $1 and locked_until > clock_timestamp()`,
};

const failedStatement = {
  name: 'status-failed',
  text: `
    select count(*) filter (where dead_at is null) as failed, count(*) filter (where dead_at is not null) as dead
    from outbox_failed`,
};

const readRelay = async (db: Database): Promise<PipelineStatus['relay']> => {
  const cursor = await loadOutboxCursor(db);
  const [pending, [failures], [lease]] = await Promise.all([
    countPending(db, cursor),
    db.execute<{ failed: number; dead: number }>(failedStatement),
    db.execute<{ heldBy: string; heldUntil: Date }>(leaseStatement, [mainRelayLease]),
  ]);
  return {
    cursor,
    pending: pending.count,
    oldestPendingAt: pending.oldestAt,
    failed: failures?.failed ?? 0,
    dead: failures?.dead ?? 0,
    heldBy: lease?.heldBy ?? null,
    heldUntil: lease?.heldUntil ?? null,
  };
};

const checkpointStatement = {
  name: 'status-checkpoints',
  text: 'select projection, topic, partition, next_offset as "nextOffset" from projection_checkpoint',
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
        const partitions = (await admin.endOffsets(topic))
          .map(({ partition, offset }) => {
            const checkpoint = checkpoints.find(
              (candidate) =>
                candidate.projection === projection &&
                candidate.topic === topic &&
                candidate.partition === partition,
            );
            const next = checkpoint?.nextOffset ?? null;
            return { partition, endOffset: offset, checkpoint: next, lag: Math.max(0, offset - (next ?? 0)) };
          })
          .sort((a, b) => a.partition - b.partition);
        return { projection, topic, partitions, lag: partitions.reduce((sum, { lag }) => sum + lag, 0) };
      }),
    );
  } finally {
    await admin.close();
  }
};

const readModelStatement = {
  name: 'status-read-models',
  text: `
    select 'product_statistic' as "table", count(*) as rows, max(updated_at) as "updatedAt" from product_statistic`,
};

const readReadModels = (db: Database): Promise<PipelineStatus['readModels']> =>
  db.execute(readModelStatement);
