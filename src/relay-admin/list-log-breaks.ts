import type { SqlRunner } from '../postgres/database.ts';
import { findResyncStart } from '../relay/resync-start.ts';

/** A topic that has lost events that a projection had read, or was about to; nobody has published them again since. */
export interface LogBreakStatus {
  readonly projection: string;
  readonly topic: string;
  readonly kind: 'recreated' | 'truncated';
  readonly partitions: number;
  readonly at: Date;
  /** Publishing again from this id on brings back whatever may be missing. */
  readonly resyncFromId: number;
}

const statement = {
  name: 'list-log-breaks',
  text: `
    select projection, topic, kind, count(distinct partition)::integer as partitions, max(at) as at,
           (extract(epoch from min(stream_time)) * 1000)::float8 as "seenUntilMs",
           (select min((target->>'fromId')::bigint) from operator_audit a
            where a.action = 'relay.resync' and a.at > max(b.at)) as "resyncedFromId"
    from projection_log_break b join projection_live using (projection, version)
    group by projection, topic, kind
    order by projection, topic, kind`,
};

type Row = Omit<LogBreakStatus, 'resyncFromId'> & {
  readonly seenUntilMs: number;
  readonly resyncedFromId: number | null;
};

export const listLogBreaks = async (db: SqlRunner): Promise<readonly LogBreakStatus[]> => {
  const found: LogBreakStatus[] = [];
  for (const { seenUntilMs, resyncedFromId, ...row } of await db.execute<Row>(statement)) {
    const resyncFromId = await findResyncStart(db, seenUntilMs);
    if (resyncedFromId === null || resyncedFromId > resyncFromId) found.push({ ...row, resyncFromId });
  }
  return found;
};
