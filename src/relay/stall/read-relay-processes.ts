import type { SqlRunner } from '../../postgres/database.ts';
import type { RelayCondition, RelayTrouble } from '../relay-condition.ts';

/** A relay, and how it says it is. */
export interface RelayProcess extends RelayCondition {
  readonly name: string;
  /** False for one that cannot take its share at the moment and says why. */
  readonly isAlive: boolean;
  readonly startedAt: Date;
}

/** Who has the right to a job at the moment. */
export interface HeldLease {
  readonly name: string;
  readonly holder: string;
  readonly until: Date;
}

const processesStatement = {
  name: 'read-relay-processes',
  text: `
    select name, started_at as "startedAt", alive_until > clock_timestamp() as "isAlive",
           circuit, circuit_since as "circuitSince", troubles
    from relay_process
    where alive_until > clock_timestamp()
       or troubles <> '[]' and alive_until > clock_timestamp() - interval '2 minutes'
    order by name`,
};

interface StoredTrouble extends Omit<RelayTrouble, 'since'> {
  readonly since: string;
}

export const readRelayProcesses = async (db: SqlRunner): Promise<readonly RelayProcess[]> => {
  const rows = await db.execute<
    Omit<RelayProcess, 'troubles'> & { readonly troubles: readonly StoredTrouble[] }
  >(processesStatement);
  return rows.map(({ troubles, ...relay }) => ({
    ...relay,
    troubles: troubles.map((trouble) => ({ ...trouble, since: new Date(trouble.since) })),
  }));
};

const leasesStatement = {
  name: 'read-relay-leases',
  text: `
    select name, locked_by as holder, locked_until as until from scheduler_lock
    where name like 'outbox-relay-%' and locked_until > clock_timestamp() order by name`,
};

export const readRelayLeases = (db: SqlRunner): Promise<readonly HeldLease[]> =>
  db.execute<HeldLease>(leasesStatement);
