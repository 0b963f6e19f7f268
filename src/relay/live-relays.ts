import type { SqlRunner } from '../postgres/database.ts';
import { mainRelayLease } from './shard.ts';

/** What a relay has to know to take its share. */
export interface RelayCrowd {
  /** The number of shards in force. */
  readonly shards: number;
  /** The relays that are alive, this one included, in the same order for all of them. */
  readonly live: readonly string[];
  /** Who holds which lease. */
  readonly holders: Readonly<Record<string, string>>;
}

const beatStatement = {
  name: 'tell-that-relay-lives',
  text: `
    with beat as (
      insert into relay_process (name, alive_until) values ($1, clock_timestamp() + $2 * interval '1 millisecond')
      on conflict (name) do update set alive_until = excluded.alive_until
    ), forgotten as (
      delete from relay_process where alive_until < clock_timestamp() - interval '1 hour'
    )
    select shards,
           array(select $1 union select name from relay_process where alive_until > clock_timestamp() order by 1) as live,
           coalesce((select json_object_agg(name, locked_by) from scheduler_lock
                     where (name = '${mainRelayLease}' or name like '${mainRelayLease}/%')
                       and locked_until > clock_timestamp()), '{}') as holders
    from relay_sharding`,
};

/** Says that this relay lives, and answers with who else does and who has what. */
export const tellThatRelayLives = async (
  db: SqlRunner,
  { name, aliveMs }: { name: string; aliveMs: number },
): Promise<RelayCrowd> => {
  const [crowd] = await db.execute<RelayCrowd>(beatStatement, [name, aliveMs]);
  if (!crowd) throw new Error('The number of shards is missing: relay_sharding has no row');
  return crowd;
};

const asideStatement = {
  name: 'relay-stands-aside',
  text: 'update relay_process set alive_until = clock_timestamp() where name = $1',
};

/** The others do not count on it until it tells again that it lives; what troubles it can still be read. */
export const standAside = async (db: SqlRunner, name: string): Promise<void> => {
  await db.execute(asideStatement, [name]);
};

const leaveStatement = { name: 'relay-leaves', text: 'delete from relay_process where name = $1' };

/** Its share is for the others from now on. */
export const leaveLiveRelays = async (db: SqlRunner, name: string): Promise<void> => {
  await db.execute(leaveStatement, [name]);
};
