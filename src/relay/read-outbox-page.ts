import type { Database, Statement } from '../postgres/database.ts';
import { codeOf } from '../postgres/sql-error.ts';
import type { OutboxDelta } from './open-outbox-delta.ts';
import type { CursorRow } from './outbox-cursor.ts';
import { inShard, type Shard, singleShard, statementSuffix } from './shard.ts';
import { type StoredRow, storedColumns, storedRowsOf } from './stored-row.ts';

/** However large the rows are: a page of many large ones is cut, and the rest comes with the next. */
const pageBytesMax = 8 * 1024 * 1024;

// Asked once per page and not per row. A connection may still lead to a server that has been replaced, and a page from
// there would be taken for one of the delta that was opened here.
const onThisServer = (id: string, writtenAt: string): string =>
  `(${id}::bigint is null or require_cursor_row(${id}::bigint, ${writtenAt}::timestamptz))`;

const pageStatement = (shard: Shard): Statement => ({
  name: `read-outbox-page${statementSuffix(shard)}`,
  text: `
    select ${storedColumns}
    from outbox
    where id > $3 and id <= $4
      and not pg_visible_in_snapshot(tx_id, $1::pg_snapshot)
      and pg_visible_in_snapshot(tx_id, $2::pg_snapshot)
      and ${onThisServer('$6', '$7')}
      ${inShard(shard)}
    order by id
    limit $5`,
});

// A transaction that was open for long has ids far below the others: those are found by transaction, not by walking
// through all the ids since.
const pageWithLateRowsStatement = (shard: Shard): Statement => ({
  name: `read-outbox-page-with-late-rows${statementSuffix(shard)}`,
  text: `
    select ${storedColumns}
    from (
      (select late.*
       from pg_snapshot_xip($1::pg_snapshot) as open_then(xid)
       cross join lateral (
         select * from outbox
         where tx_id = xid and id > $3 and id < $8 and pg_visible_in_snapshot(tx_id, $2::pg_snapshot)
           ${inShard(shard)}
         order by tx_id, id
         limit $5) late)
      union all
      (select * from outbox
       where id >= $8 and id > $3 and id <= $4
         and not pg_visible_in_snapshot(tx_id, $1::pg_snapshot)
         and pg_visible_in_snapshot(tx_id, $2::pg_snapshot)
         ${inShard(shard)}
       order by id
       limit $5)
    ) delta
    where ${onThisServer('$6', '$7')}
    order by id
    limit $5`,
});

const restoredPageStatement = (shard: Shard): Statement => ({
  name: `read-restored-page${statementSuffix(shard)}`,
  text: `
    select ${storedColumns}
    from outbox
    where id > $1 and id <= $2 and ${onThisServer('$4', '$5')} ${inShard(shard)}
    order by id
    limit $3`,
});

/** The server does not have the row that the delta comes from: it was opened on another one. */
export class DeltaGone extends Error {
  override readonly name = 'DeltaGone';
}

const cursorRowMissing = 'MR001';

export interface PageOptions {
  readonly rowsMax: number;
  readonly shard?: Shard;
  /** The row that the delta comes from; null for whoever reads without moving the relay's cursor. */
  readonly row: CursorRow | null;
}

/**
 * The next rows of a delta in id order, which keeps every aggregate in order: version n+1 is inserted after n is visible.
 * The delta is that of the whole journal; of its rows a shard gets its own.
 */
export const readOutboxPage = async (
  db: Database,
  { cursor, bounds }: OutboxDelta,
  { rowsMax, shard = singleShard, row }: PageOptions,
): Promise<readonly StoredRow[]> => {
  const { from, to, lastId, restoredLastId } = cursor;
  const { firstId, finalId } = bounds;
  const origin = [row?.id ?? null, row?.writtenAt ?? null];
  const read = async (statement: Statement, values: readonly unknown[]) =>
    storedRowsOf(await db.readBinary(statement, values, { bytesMax: pageBytesMax }));
  try {
    if (restoredLastId !== undefined)
      return await read(restoredPageStatement(shard), [restoredLastId, finalId, rowsMax, ...origin]);
    const values = [from, to, lastId, finalId, rowsMax, ...origin];
    return lastId < firstId - 1
      ? await read(pageWithLateRowsStatement(shard), [...values, firstId])
      : await read(pageStatement(shard), values);
  } catch (error) {
    if (codeOf(error) !== cursorRowMissing) throw error;
    throw new DeltaGone('The database server does not have the delta: it was opened on another one', {
      cause: error,
    });
  }
};
