import type { SqlRunner } from '../postgres/database.ts';
import type { Lease } from './lease.ts';
import type { Shard } from './shard.ts';

/** What is known of the relays that held this lease before and did not get on. */
export interface NotedDeaths {
  /** How many ended, one after the other, while the position stayed the same. */
  readonly deaths: number;
  /** The event that the last of them was trying, alone. */
  readonly suspectId: number | null;
}

// Every page that gets through adds a row to one of the two tables, whichever the relay reads from.
const position = (shards: string, shard: string) => `
  (select coalesce(max(id), 0) from outbox_cursor where shards = ${shards} and shard = ${shard})
  || '/' || (select coalesce(max(id), 0) from outbox_wal_position)`;

// Whoever lives tells so three times in a lease's time. A process that ended has kept its lease for most of that time since
// its last word; one that only lost its lease, because it was slow, has said a word a moment ago. Half of the time lies
// between the two.
const noteDeathStatement = {
  name: 'note-death-of-relay',
  text: `
    with former as (
      select exists (select from relay_process
                     where name = $5 and alive_until > clock_timestamp() + $6 * interval '0.5 millisecond') as lives
    ), cleared as (
      update relay_suspicion set suspect_id = null where lease = $1 and (select lives from former)
    )
    insert into relay_suspicion as noted (lease, position, deaths)
    select ours.name, ${position('$3', '$4')}, 1
    from (select name from scheduler_lock where name = $1 and token = $2 for share) ours
    where not (select lives from former)
    on conflict (lease) do update
      set deaths = case when noted.position = excluded.position then noted.deaths + 1 else 1 end,
          suspect_id = case when noted.position = excluded.position then noted.suspect_id end,
          position = excluded.position, noted_at = clock_timestamp()
    returning deaths, suspect_id as "suspectId"`,
};

/**
 * The one who had the lease before did not give it back: if its process has ended, counts that and says what is known. One
 * that lives was slow, and nothing that it tried has ended it.
 */
export const noteDeath = async (
  db: SqlRunner,
  { lease, shard, leaseMs }: { lease: Lease; shard: Shard; leaseMs: number },
): Promise<NotedDeaths> => {
  const [noted] = await db.execute<NotedDeaths>(noteDeathStatement, [
    lease.name,
    lease.token,
    shard.of,
    shard.number,
    lease.lapsedFrom,
    leaseMs,
  ]);
  return noted ?? { deaths: 0, suspectId: null };
};

const noteSuspectStatement = {
  name: 'note-suspect',
  text: `
    update relay_suspicion set suspect_id = $5, position = ${position('$3', '$4')}, noted_at = clock_timestamp()
    where lease = (select name from scheduler_lock where name = $1 and token = $2)`,
};

/** Says, before it is tried, which event is about to be; nobody when there is none any more. */
export const noteSuspect = async (
  db: SqlRunner,
  { lease, shard, suspectId }: { lease: Lease; shard: Shard; suspectId: number | null },
): Promise<void> => {
  await db.execute(noteSuspectStatement, [lease.name, lease.token, shard.of, shard.number, suspectId]);
};

const forgetStatement = { name: 'forget-deaths', text: 'delete from relay_suspicion where lease = $1' };

/** The relay has got past whatever it was. */
export const forgetDeaths = async (db: SqlRunner, { name }: Lease): Promise<void> => {
  await db.execute(forgetStatement, [name]);
};
