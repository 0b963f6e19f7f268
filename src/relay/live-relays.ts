import type { SqlRunner } from '../postgres/database.ts';
import type { BrokerWord } from './broker-reach.ts';
import { mainRelayLease } from './shard.ts';

/** What a relay has to know to take its share. */
export interface RelayCrowd {
  /** The number of shards in force. */
  readonly shards: number;
  /** The relays that are alive and take part, this one included, in the same order for all of them. */
  readonly live: readonly string[];
  /** Who holds which lease. */
  readonly holders: Readonly<Record<string, string>>;
  /** Whether another one fails to send, or sits out because it did. */
  readonly othersFail: boolean;
  /** The most brokers that one of the others reaches who takes part; null when none has looked. */
  readonly othersReach: number | null;
}

const beatStatement = {
  name: 'tell-that-relay-lives',
  text: `
    with beat as (
      insert into relay_process (name, alive_until, brokers_failing_since, brokers_reached, sits_out)
      values ($1, clock_timestamp() + $2 * interval '1 millisecond',
              clock_timestamp() - $3::float8 * interval '1 millisecond', $4, $5)
      on conflict (name) do update
        set alive_until = excluded.alive_until, brokers_failing_since = excluded.brokers_failing_since,
            brokers_reached = excluded.brokers_reached, sits_out = excluded.sits_out
    ), other as (
      select name, brokers_failing_since, brokers_reached, sits_out from relay_process
      where name <> $1 and alive_until > clock_timestamp()
    ), forgotten as (
      delete from relay_process where alive_until < clock_timestamp() - interval '1 hour'
    )
    select shards,
           array(select $1 union select name from other where not sits_out order by 1) as live,
           exists (select from other where brokers_failing_since is not null or sits_out) as "othersFail",
           (select max(brokers_reached) from other where not sits_out) as "othersReach",
           coalesce((select json_object_agg(name, locked_by) from scheduler_lock
                     where (name = '${mainRelayLease}' or name like '${mainRelayLease}/%')
                       and locked_until > clock_timestamp()), '{}') as holders
    from relay_sharding`,
};

const noWord: BrokerWord = { failingMs: null, reached: null, sitsOut: false };

/** Says that this relay lives and how it fares with the brokers; answers with who else does and who has what. */
export const tellThatRelayLives = async (
  db: SqlRunner,
  { name, aliveMs, brokers = noWord }: { name: string; aliveMs: number; brokers?: BrokerWord },
): Promise<RelayCrowd> => {
  const { failingMs, reached, sitsOut } = brokers;
  const [crowd] = await db.execute<RelayCrowd>(beatStatement, [name, aliveMs, failingMs, reached, sitsOut]);
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
