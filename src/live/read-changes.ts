import type { SqlRunner } from '../postgres/database.ts';
import type { LivePosition } from './position.ts';

/** Where processes hear that read models have changed. */
export const changesChannel = 'millrace_changes';

export type ChangedKeys = Readonly<Record<string, readonly string[]>>;

export interface WhatChanged {
  readonly keys: ChangedKeys;
  /** Models of which another build has become live: all of their rows may differ. */
  readonly replaced: readonly string[];
}

export type Changes =
  | ({ readonly kind: 'known'; readonly to: LivePosition } & WhatChanged)
  /** The position cannot be gone on from: it is of another database, or some of what followed it is dropped. */
  | { readonly kind: 'lost'; readonly reason: 'unknown-position' | 'too-old'; readonly to: LivePosition };

// As in the relay's cursor: a change is missing from a snapshot when its transaction began after it, or was under way in it.
// One statement, so that the changes, the horizon and the new position are seen at one moment. A transaction that was under way
// and still is has dropped nothing, for its changes are not there yet. Transactions that are still to come are those of another
// server, in a database that was restored from a dump.
const statement = {
  name: 'read-changes',
  text: `
    with missing as materialized (
      select model, keys, is_replaced from model_change where tx_id >= pg_snapshot_xmax($1::pg_snapshot)
        and tx_id < pg_snapshot_xmax(pg_current_snapshot())
      union all
      select written.model, written.keys, written.is_replaced from pg_snapshot_xip($1::pg_snapshot) as open_then(xid)
      cross join lateral (
        select model, keys, is_replaced from model_change where tx_id = xid offset 0) written
    ), changed as (
      select model, jsonb_agg(distinct key) as keys from missing cross join lateral unnest(keys) as key group by model
    )
    select pg_current_snapshot()::text as snapshot, system.system_identifier::text as system,
           coalesce((select jsonb_object_agg(model, keys) from changed), '{}') as keys,
           array(select distinct model from missing where is_replaced order by model) as replaced,
           system.system_identifier::text <> $2
             or pg_snapshot_xmax($1::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot()) as "isForeign",
           horizon.forgotten_tx >= pg_snapshot_xmax($1::pg_snapshot)
               and horizon.forgotten_tx < pg_snapshot_xmax(pg_current_snapshot())
             or exists (
               select from pg_snapshot_xip($1::pg_snapshot) as open_then(xid)
               where xid <= horizon.forgotten_tx and pg_visible_in_snapshot(xid, pg_current_snapshot())
             ) as "isGone"
    from pg_control_system() system, model_change_horizon horizon`,
};

interface ChangesRow extends WhatChanged {
  readonly snapshot: string;
  readonly system: string;
  readonly isForeign: boolean;
  readonly isGone: boolean;
}

/** What has changed since a position, by model. */
export const readChanges = async (db: SqlRunner, from: LivePosition): Promise<Changes> => {
  const [row] = await db.execute<ChangesRow>(statement, [from.snapshot, from.system]);
  if (!row) throw new Error('The horizon of changes has lost its row');
  const to = { system: row.system, snapshot: row.snapshot };
  if (row.isForeign) return { kind: 'lost', reason: 'unknown-position', to };
  if (row.isGone) return { kind: 'lost', reason: 'too-old', to };
  return { kind: 'known', to, keys: row.keys, replaced: row.replaced };
};

const nowStatement = {
  name: 'read-live-position',
  text: 'select pg_current_snapshot()::text as snapshot, system_identifier::text as system from pg_control_system()',
};

/** As of now: what is committed from here on is still to be told. */
export const readPositionNow = async (db: SqlRunner): Promise<LivePosition> => {
  const [row] = await db.execute<LivePosition>(nowStatement);
  if (!row) throw new Error('The database did not say where it is');
  return row;
};
