import type { SqlRunner } from '../postgres/database.ts';

export interface Lease {
  readonly name: string;
  /** Grows with every new holder: what the one before still wants to write is refused. */
  readonly token: number;
  /** Who had it before and let it run out instead of giving it back; nobody when it was given back. */
  readonly lapsedFrom: string | null;
}

/**
 * The lease has gone to another relay, or the database server is another one than before: what is in memory is void. Whoever
 * still has the lease goes on from what is stored.
 */
export class LeaseMoved extends Error {
  override readonly name = 'LeaseMoved';
}

// A shard's lease can be had only while its division is in force; whoever changes that waits for those who are just asking.
const acquireStatement = {
  name: 'acquire-lease',
  text: `
    with division as (
      select from relay_sharding
      where ($4::integer is null or shards = $4)
        and not ($5 and exists (select from relay_control where paused_at is not null))
      for share
    )
    insert into scheduler_lock as held (name, locked_by, locked_until)
    select $1, $2, clock_timestamp() + $3 * interval '1 millisecond' from division
    on conflict (name) do update
      set locked_by = excluded.locked_by,
          locked_until = excluded.locked_until,
          token = held.token + (held.locked_by <> excluded.locked_by)::int,
          lapsed_from = case when held.locked_by = excluded.locked_by then held.lapsed_from
                             when held.locked_until > '-infinity' then held.locked_by end,
          lapses = held.lapses + (held.locked_by <> excluded.locked_by and held.locked_until > '-infinity')::int
      where held.locked_by = excluded.locked_by or held.locked_until < clock_timestamp()
    returning token, lapsed_from as "lapsedFrom"`,
};

export interface LeaseRequest {
  readonly name: string;
  readonly holder: string;
  readonly holdMs: number;
  /** For the lease of a shard: how many shards there have to be. */
  readonly ofShards?: number;
  /** For a lease to publish: nobody gets it or keeps it while the relay is paused. */
  readonly stopsForPause?: boolean;
}

/** Takes the lease or renews our own; nothing when somebody else holds it, the shard is no more, or there is a pause. */
export const acquireLease = async (db: SqlRunner, request: LeaseRequest): Promise<Lease | undefined> => {
  const { name, holder, holdMs, ofShards = null, stopsForPause = false } = request;
  const [row] = await db.execute<Omit<Lease, 'name'>>(acquireStatement, [
    name,
    holder,
    holdMs,
    ofShards,
    stopsForPause,
  ]);
  return row && { name, ...row };
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
