import type { SqlRunner } from '../../postgres/database.ts';
import type { GhostEvent } from './ghost-event.ts';

export interface GhostList {
  /** All that are open, not only those that are listed. */
  readonly events: number;
  readonly ghosts: readonly GhostEvent[];
}

const listStatement = {
  name: 'list-ghost-events',
  text: `
    select ghost.event_id as "eventId", ghost.event_type as "eventType", ghost.aggregate_type as "aggregateType",
           ghost.aggregate_id as "aggregateId", ghost.aggregate_version as "aggregateVersion", topic, partition,
           record_offset as "offset", recorded_at as "recordedAt", found_at as "foundAt", o.event_id as "replacedBy"
    from ghost_event ghost
    left join outbox o
      on o.aggregate_type = ghost.aggregate_type and o.aggregate_id = ghost.aggregate_id
     and o.aggregate_version = ghost.aggregate_version
    where dismissed_at is null and o.event_id is distinct from ghost.event_id
    order by recorded_at, topic, partition, record_offset
    limit $1`,
};

const countStatement = {
  name: 'count-ghost-events',
  text: 'select count(*) as events from ghost_event where dismissed_at is null',
};

/** Events that Kafka has and the journal has not, and that nobody has dismissed. */
export const countGhosts = async (db: SqlRunner): Promise<number> =>
  (await db.execute<{ events: number }>(countStatement))[0]?.events ?? 0;

/** In the order in which Kafka got them. */
export const listGhosts = async (db: SqlRunner, { limit }: { limit: number }): Promise<GhostList> => {
  const ghosts = await db.execute<GhostEvent>(listStatement, [limit]);
  return { events: ghosts.length < limit ? ghosts.length : await countGhosts(db), ghosts };
};

const dismissStatement = {
  name: 'dismiss-ghost-events',
  text: `
    update ghost_event set dismissed_at = clock_timestamp() where dismissed_at is null returning event_id`,
};

/** They are mended: nobody is told of them any more, also when a search finds them again. Answers with how many. */
export const dismissGhosts = async (tx: SqlRunner): Promise<number> =>
  (await tx.execute(dismissStatement)).length;

/** What became of the journal's last change of server or timeline. */
export interface GhostSearch {
  readonly noticedAt: Date;
  /** Records from then on are looked up. */
  readonly from: Date;
  readonly done: number;
  /** Null when it is complete. */
  readonly nextAt: Date | null;
  readonly unreadable: number;
}

export interface GhostStatus {
  /** Events that Kafka has and the journal has not, and that nobody has dismissed. */
  readonly events: number;
  /** Null as long as the journal has always been on the same server and timeline. */
  readonly search: GhostSearch | null;
}

const searchStatement = {
  name: 'read-ghost-search',
  text: `
    select noticed_at as "noticedAt", search_from as "from", searches_done as done, next_search_at as "nextAt",
           records_unreadable as unreadable
    from journal_timeline where search_from is not null order by id desc limit 1`,
};

export const readGhostStatus = async (db: SqlRunner): Promise<GhostStatus> => {
  const [search] = await db.execute<GhostSearch>(searchStatement);
  return { events: await countGhosts(db), search: search ?? null };
};

/** What to do about ghosts. */
export const ghostRemedy =
  'List them with npx millrace relay ghosts. Read models may have counted them: fill those anew from the journal with npx millrace rebuild <projection> --accept-differences, then npx millrace relay ghosts --dismiss';
