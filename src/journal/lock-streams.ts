import type { SqlRunner } from '../postgres/database.ts';

const statement = {
  name: 'lock-streams',
  text: `
    select pg_advisory_xact_lock(hashtextextended(key, 0))
    from (select key from unnest($1::text[]) as key order by key) sorted`,
};

/** Waits until nobody else holds any of the streams, until the end of the transaction. Sorted, so nobody waits in a circle. */
export const lockStreams = async (tx: SqlRunner, streamKeys: readonly string[]): Promise<void> => {
  await tx.execute(statement, [streamKeys]);
};
