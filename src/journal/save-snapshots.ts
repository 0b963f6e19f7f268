import type { SqlRunner } from '../postgres/database.ts';
import type { StreamId } from './seal-event.ts';

export interface Snapshot {
  readonly stream: StreamId;
  readonly version: number;
  readonly foldVersion: number;
  readonly state: unknown;
}

const statement = {
  name: 'save-snapshots',
  text: `
    insert into aggregate_snapshot as held (aggregate_type, aggregate_id, version, fold_version, state)
    select * from unnest($1::text[], $2::text[], $3::integer[], $4::integer[], $5::jsonb[])
    on conflict (aggregate_type, aggregate_id) do update
      set version = excluded.version, fold_version = excluded.fold_version, state = excluded.state,
          taken_at = clock_timestamp()
      where held.fold_version <> excluded.fold_version or held.version < excluded.version`,
};

/** Snapshots only go forward; one of another fold is replaced. */
export const saveSnapshots = async (db: SqlRunner, snapshots: readonly Snapshot[]): Promise<void> => {
  if (snapshots.length === 0) return;
  await db.execute(statement, [
    snapshots.map(({ stream }) => stream.aggregateType),
    snapshots.map(({ stream }) => stream.aggregateId),
    snapshots.map(({ version }) => version),
    snapshots.map(({ foldVersion }) => foldVersion),
    snapshots.map(({ state }) => JSON.stringify(state)),
  ]);
};
