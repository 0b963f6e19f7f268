import { OperatorError } from '../../operator-error.ts';
import type { SqlRunner } from '../../postgres/database.ts';
import { parseLsn } from '../../postgres/lsn.ts';
import { codeOf } from '../../postgres/sql-error.ts';
import { loadShardCount } from '../sharding.ts';

export interface SlotHealth {
  readonly slot: string;
  /** 'missing' when there is no such slot; 'lost' when the server has thrown away what the slot still needed. */
  readonly walStatus: 'reserved' | 'extended' | 'unreserved' | 'lost' | 'missing';
  /** Whether a relay reads from it at this moment. */
  readonly active: boolean;
  readonly activePid: number | null;
  /** How much log the server keeps that has not been confirmed. */
  readonly lagBytes: number | null;
  readonly confirmedLsn: bigint | null;
}

// Slots belong to the whole server: one of the same name may be that of another database.
const inspectStatement = {
  name: 'inspect-replication-slot',
  text: `
    select wal_status as "walStatus", active, active_pid as "activePid",
           confirmed_flush_lsn::text as "confirmedLsn",
           greatest(pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn), 0)::bigint as "lagBytes"
    from pg_replication_slots where slot_name = $1 and database = current_database()`,
};

type InspectedSlot = Omit<SlotHealth, 'slot' | 'confirmedLsn'> & { readonly confirmedLsn: string | null };

export const inspectSlot = async (db: SqlRunner, slot: string): Promise<SlotHealth> => {
  const [row] = await db.execute<InspectedSlot>(inspectStatement, [slot]);
  if (!row) {
    return { slot, walStatus: 'missing', active: false, activePid: null, lagBytes: null, confirmedLsn: null };
  }
  return { slot, ...row, confirmedLsn: row.confirmedLsn === null ? null : parseLsn(row.confirmedLsn) };
};

/** What an operator does when the relay is to read the log again. */
export const wayBackToLog =
  'To return to the write-ahead log, which makes a new slot, run npx millrace relay use-wal';

const lossesInWords = {
  missing: (slot: string) =>
    `The replication slot ${slot} is gone, though the relay has not been switched away from it`,
  lost: (slot: string) =>
    `The server has given the replication slot ${slot} up, as it does with one that is too far behind, and removes the log it needed`,
  promoted: (slot: string) =>
    `PostgreSQL was promoted since the relay stored its position: the replication slot ${slot} may have confirmed more than what was stored and replicated`,
} as const;

/** Rows may have been committed that no slot will ever hand over: going on as if nothing was would lose them. */
export class SlotLost extends OperatorError {
  readonly code = 'SLOT_LOST';

  constructor({ slot, how }: { slot: string; how: keyof typeof lossesInWords }) {
    super(lossesInWords[how](slot), {
      remedy: `The outbox table has every row: the relay goes on there from the last snapshot that is known to be published, and nothing is lost. ${wayBackToLog}`,
    });
  }
}

export const requireLiveSlot = ({ slot, walStatus }: SlotHealth): void => {
  if (walStatus === 'lost' || walStatus === 'missing') throw new SlotLost({ slot, how: walStatus });
};

const foreignSlotStatement = {
  name: 'find-foreign-slot',
  text: `
    select database from pg_replication_slots
    where slot_name = $1 and database is distinct from current_database()`,
};

/** Slots belong to the whole server, and each name can be had once. */
export const requireFreeName = async (db: SqlRunner, slot: string): Promise<void> => {
  const [foreign] = await db.execute<{ database: string | null }>(foreignSlotStatement, [slot]);
  if (!foreign) return;
  const owner =
    foreign.database === null ? 'a physical standby' : `the database ${foreign.database} of the same server`;
  throw new OperatorError(`The replication slot ${slot} belongs to ${owner}, and is left alone`, {
    remedy:
      'Give one of the two systems another TOPIC_PREFIX, from which the name of the slot is made; if nobody uses that slot any more, drop it in its own database; or run the relay with RELAY_SOURCE=cursor',
  });
};

const walLevelStatement = {
  name: 'read-wal-level',
  text: `select current_setting('wal_level') as "walLevel"`,
};

export const requireLogicalLog = async (db: SqlRunner): Promise<void> => {
  const [row] = await db.execute<{ walLevel: string }>(walLevelStatement);
  if (row?.walLevel === 'logical') return;
  throw new OperatorError(`PostgreSQL runs with wal_level=${row?.walLevel ?? 'unknown'}`, {
    remedy:
      'Set wal_level=logical and restart the server, or run the relay with RELAY_SOURCE=cursor, which needs no such setting',
  });
};

/** The log tells of all keys in one stream, and only one relay can read it. */
export const requireOneShard = async (db: SqlRunner): Promise<void> => {
  const shards = await loadShardCount(db);
  if (shards === 1) return;
  throw new OperatorError(
    `The write-ahead log can be relayed in one shard only, and ${shards} are in force`,
    {
      remedy:
        'Bring them together with npx millrace relay reshard 1 and start again, or read the table by snapshots with RELAY_SOURCE=cursor',
    },
  );
};

const insufficientPrivilege = '42501';
const lockNotAvailable = '55P03';
const configurationLimitExceeded = '53400';

/** What the server refuses for a reason that an operator can remove. */
export const explainRefusal = (error: unknown): unknown => {
  const cause = error;
  switch (codeOf(error)) {
    case insufficientPrivilege:
      return new OperatorError(
        `The database role may not read the write-ahead log: ${(error as Error).message}`,
        {
          remedy:
            'As a superuser run: alter role <the role of DATABASE_URL> with replication; it also has to own the table outbox and may create in the database. Or run the relay with RELAY_SOURCE=cursor',
          cause,
        },
      );
    case lockNotAvailable:
      return new OperatorError('A replication slot cannot begin while older transactions are open', {
        remedy:
          'End the oldest transactions in pg_stat_activity (xact_start) and start again; until then the relay works with RELAY_SOURCE=cursor',
        cause,
      });
    case configurationLimitExceeded:
      return new OperatorError(`The server has no replication slot left: ${(error as Error).message}`, {
        remedy:
          'Drop a slot that nobody uses (select slot_name, active from pg_replication_slots) or raise max_replication_slots',
        cause,
      });
    default:
      return error;
  }
};

const findPublicationStatement = {
  name: 'find-outbox-publication',
  text: `
    select pubinsert and not pubupdate and not pubdelete and not pubtruncate and array(
             select format('%I.%I', schemaname, tablename) from pg_publication_tables tables
             where tables.pubname = publication.pubname
           ) = array[format('%I.outbox', current_schema())] as fits
    from pg_publication publication where pubname = $1`,
};

/** The publication has to be older than the slot: the slot looks it up as it was when a row was written. */
export const ensurePublication = async (db: SqlRunner, publication: string): Promise<void> => {
  const [found] = await db.execute<{ fits: boolean }>(findPublicationStatement, [publication]);
  if (found?.fits) return;
  if (found) {
    throw new OperatorError(`The publication ${publication} is not one of the inserts into outbox alone`, {
      remedy: `Drop it (drop publication ${publication}) so that Millrace makes its own, or give Millrace another name for it`,
    });
  }
  const statement = {
    name: `create-publication-${publication}`,
    text: `create publication "${publication}" for table outbox with (publish = 'insert')`,
  };
  await db.execute(statement);
};

const dropStatement = {
  name: 'drop-replication-slot',
  text: `select pg_drop_replication_slot(slot_name) from pg_replication_slots
         where slot_name = $1 and database = current_database()`,
};

export const dropSlot = async (db: SqlRunner, slot: string): Promise<void> => {
  await db.execute(dropStatement, [slot]);
};

const expelStatement = {
  name: 'expel-slot-reader',
  text: `
    select pg_terminate_backend(active_pid) from pg_replication_slots
    where slot_name = $1 and database = current_database() and active_pid is not null`,
};

/** For the holder of the lease: whoever still reads from the slot has lost it, and may be asleep. */
export const expelReader = async (db: SqlRunner, slot: string): Promise<void> => {
  await db.execute(expelStatement, [slot]);
};

const senderTimeoutStatement = {
  name: 'read-wal-sender-timeout',
  text: `select setting::integer as "timeoutMs" from pg_settings where name = 'wal_sender_timeout'`,
};

/** After this time without a word from us the server hangs up; 0 when it never does. */
export const readSenderTimeoutMs = async (db: SqlRunner): Promise<number> => {
  const [row] = await db.execute<{ timeoutMs: number }>(senderTimeoutStatement);
  return row?.timeoutMs ?? 0;
};

/** Names go into commands that take no parameters. */
export const requirePlainName = (name: string): void => {
  if (!/^[a-z0-9_]{1,63}$/.test(name)) {
    throw new OperatorError(`"${name}" cannot name a slot or a publication`, {
      remedy: 'Use lower case letters, digits and underscores, at most 63 of them',
    });
  }
};
