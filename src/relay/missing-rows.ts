/** Rows that came with a dump: their transaction ids say nothing here, and they go by id. */
export const restoredUntilId = '(select restored_until_id from journal_origin)';

// A row is missing from a snapshot when its transaction began after it or was under way in it. Asked like this, both
// conditions are lookups in the index on (tx_id, id); a transaction left open for hours costs one lookup more. One lookup
// each, which `offset 0` keeps so: as a list of unknown length they would make the planner walk the whole table once a few
// large transactions have loaded it. No row of this server has a transaction id that is still to come; those of a dump may.
/** SQL: the rows whose transaction began after a snapshot. */
export const begunAfter = (snapshot: string, columns = 'id, tx_id'): string => `
      select ${columns} from outbox
      where tx_id >= pg_snapshot_xmax(${snapshot}) and tx_id < pg_snapshot_xmax(pg_current_snapshot())
        and id > ${restoredUntilId}`;

/** SQL: the rows whose transaction was under way in a snapshot. */
export const openIn = (snapshot: string, columns = 'id, tx_id'): string => `
      select written.* from pg_snapshot_xip(${snapshot}) as open_then(xid)
      cross join lateral (
        select ${columns} from outbox where tx_id = xid and id > ${restoredUntilId} offset 0) written`;

/** SQL: the rows that are there and missing from a snapshot. */
export const missingFrom = (snapshot: string): string =>
  `${begunAfter(snapshot)} union all ${openIn(snapshot)}`;

/** The parameters of a statement that a cursor's parts are in. */
export interface CursorParameters {
  readonly from: string;
  readonly to: string;
  readonly lastId: string;
  readonly restoredLastId: string;
}

/** SQL: the ids of the rows that a cursor has not passed. */
export const pendingIds = ({ from, to, lastId, restoredLastId }: CursorParameters): string => `
      select id from (${missingFrom(from)}) missing
      where not (pg_visible_in_snapshot(tx_id, ${to}) and id <= ${lastId})
      union all
      select id from outbox where id > ${restoredLastId}::bigint and id <= ${restoredUntilId}`;
