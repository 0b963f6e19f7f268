import type { SqlRunner } from '../postgres/database.ts';
import type { ChangedRows, ChangesRequest, ProjectionId } from '../streams/ports.ts';
import { parseExactJson } from './exact-json.ts';

// One statement has one snapshot: whatever it does not see was written by a transaction that is not below its xmin, and is
// asked for the next time. What a transaction under way holds back is read again until it is over.
const statement = {
  name: 'load-changed-states',
  text: `
    select snapshot.xmin::text as "upTo", s.key, s.value::text as value
    from (select pg_snapshot_xmin(pg_current_snapshot()) as xmin) snapshot
    left join projection_state s
      on s.projection = $1 and s.version = $2 and s.state = $3 and s.changed_in >= coalesce($4::text, '0')::xid8
     and (s.value is not null or $4::text is not null)
    limit $5`,
};

interface Row {
  readonly upTo: string;
  readonly key: string | null;
  readonly value: string | null;
}

/** What copies of a state need to be as it is now. */
export const loadChanged = async (
  db: SqlRunner,
  { name, version }: ProjectionId,
  { state, since, rowsMax }: ChangesRequest,
): Promise<ChangedRows> => {
  const rows = await db.execute<Row>(statement, [name, version, state.name, since ?? null, rowsMax]);
  const upTo = rows[0]?.upTo ?? '0';
  // A copy is dropped with everything else that is in memory when the store fails, and read anew.
  if (since !== undefined && BigInt(upTo) < BigInt(since))
    throw new Error('The database has been set back to an earlier time: what was read before does not count');
  return {
    rows: rows.flatMap(({ key, value }) =>
      key === null ? [] : [{ key, value: value === null ? undefined : parseExactJson(value) }],
    ),
    upTo,
  };
};
