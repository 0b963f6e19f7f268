import type { SqlRunner } from '../postgres/database.ts';
import { packIds } from './packed-ids.ts';

/** Ids that were handled in one place and one stretch of event time, by one batch. */
export interface Segment {
  readonly scope: number;
  readonly bucketStartMs: number;
  readonly ids: readonly string[];
}

// All ids travel as one value, which pg sends as the bytes it is; a list of values would travel as text.
const statement = {
  name: 'store-handled',
  text: `
    insert into projection_handled (scope, bucket_start_ms, ids)
    select scope, bucket_start_ms, substring($1::bytea from first_byte for bytes)
    from unnest($2::integer[], $3::bigint[], $4::integer[], $5::integer[])
      as segment(scope, bucket_start_ms, first_byte, bytes)`,
};

const missedStatement = {
  name: 'store-missed',
  text: `
    insert into projection_handled (scope, bucket_start_ms, ids, late_ids)
    select scope, bucket_start_ms, '', substring($1::bytea from first_byte for bytes)
    from unnest($2::integer[], $3::bigint[], $4::integer[], $5::integer[])
      as segment(scope, bucket_start_ms, first_byte, bytes)`,
};

/** Ids of events that are in no window; in rows of their own, because most batches have none. */
export const storeMissed = (tx: SqlRunner, segments: readonly Segment[]): Promise<void> =>
  store(tx, missedStatement, segments);

export const storeHandled = (tx: SqlRunner, segments: readonly Segment[]): Promise<void> =>
  store(tx, statement, segments);

const store = async (tx: SqlRunner, into: typeof statement, segments: readonly Segment[]): Promise<void> => {
  const filled = segments.filter(({ ids }) => ids.length > 0);
  if (filled.length === 0) return;
  const lengths = filled.map(({ ids }) => ids.length * 16);
  let end = 1;
  const starts = lengths.map((length) => {
    end += length;
    return end - length;
  });
  await tx.execute(into, [
    packIds(filled.map(({ ids }) => ids)),
    filled.map(({ scope }) => scope),
    filled.map(({ bucketStartMs }) => bucketStartMs),
    starts,
    lengths,
  ]);
};
