import type { SqlRunner } from '../postgres/database.ts';

export interface Lease {
  readonly name: string;
  /** Grows with every new holder: what the one before still wants to write is refused. */
  readonly token: number;
}

const acquireStatement = {
  name: 'acquire-lease',
  text: `
    insert into scheduler_lock as held (name, locked_by, locked_until)
    values ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
    on conflict (name) do update
      set locked_by = excluded.locked_by,
          locked_until = excluded.locked_until,
          token = held.token + (held.locked_by <> excluded.locked_by)::int
      where held.locked_by = excluded.locked_by or held.locked_until < clock_timestamp()
    returning token`,
};

/** Takes the lease or renews our own; nothing when somebody else holds it. */
export const acquireLease = async (
  db: SqlRunner,
  request: { name: string; holder: string; holdMs: number },
): Promise<Lease | undefined> => {
  const [row] = await db.execute<{ token: number }>(acquireStatement, [
    request.name,
    request.holder,
    request.holdMs,
  ]);
  return row && { name: request.name, token: row.token };
};

const releaseStatement = {
  name: 'release-lease',
  text: `update scheduler_lock set locked_until = '-infinity' where name = $1 and locked_by = $2`,
};

/** Lets a standby take over at once instead of after the hold. */
export const releaseLease = async (
  db: SqlRunner,
  request: { name: string; holder: string },
): Promise<void> => {
  await db.execute(releaseStatement, [request.name, request.holder]);
};
