import pg, { type PoolClient } from 'pg';
import type { CommonQueryMethods } from 'slonik';
import { slonikOverClient } from './slonik-over-client.ts';

/** A statement of the hot path: prepared once per connection under its name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** What a statement can be run on: the pool, or one transaction. */
export interface SqlRunner {
  /** The fast way: a prepared statement through pg, rows as they come. */
  execute<Row>(statement: Statement, values?: readonly unknown[]): Promise<readonly Row[]>;
  /** The checked way: slonik's `sql` tag with a schema for every row. */
  checked<T>(routine: (slonik: CommonQueryMethods) => Promise<T>): Promise<T>;
}

export interface Database extends SqlRunner {
  transaction<T>(routine: (tx: SqlRunner) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export interface DatabaseOptions {
  readonly url: string;
  readonly applicationName: string;
  readonly poolSizeMax: number;
  readonly connectTimeoutMs: number;
  readonly statementTimeoutMs: number;
  /** Called for a connection that breaks while nobody uses it; the pool replaces it by itself. */
  readonly onIdleError: (error: Error) => void;
}

export const openDatabase = (options: DatabaseOptions): Database => {
  const pool = new pg.Pool({
    connectionString: options.url,
    application_name: options.applicationName,
    max: options.poolSizeMax,
    connectionTimeoutMillis: options.connectTimeoutMs,
    statement_timeout: options.statementTimeoutMs,
    types: { getTypeParser: typeParser },
    options: sessionSettings,
  });
  pool.on('error', options.onIdleError);

  const withClient = async <T>(routine: (client: PoolClient) => Promise<T>): Promise<T> => {
    const client = await pool.connect();
    try {
      return await routine(client);
    } finally {
      client.release();
    }
  };

  return {
    execute: async (statement, values) =>
      (await pool.query({ ...statement, values: [...(values ?? [])] })).rows,
    checked: (routine) => withClient(async (client) => routine(await slonikOverClient(client))),
    transaction: (routine) => inTransaction(pool, routine),
    close: () => pool.end(),
  };
};

const inTransaction = async <T>(pool: pg.Pool, routine: (tx: SqlRunner) => Promise<T>): Promise<T> => {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    await client.query('begin');
    const result = await routine(runnerOn(client));
    await client.query('commit');
    return result;
  } catch (error) {
    // A connection that cannot even roll back is in an unknown state: the pool must not hand it out again.
    await client.query('rollback').catch((rollbackError: Error) => {
      broken = rollbackError;
    });
    throw error;
  } finally {
    client.release(broken);
  }
};

const runnerOn = (client: PoolClient): SqlRunner => ({
  execute: async (statement, values) =>
    (await client.query({ ...statement, values: [...(values ?? [])] })).rows,
  checked: async (routine) => routine(await slonikOverClient(client)),
});

// Every statement here touches few rows through an index. The planner does not know that of a snapshot's delta and would
// start workers, or compile, for ten milliseconds and more each time.
const sessionSettings = '-c max_parallel_workers_per_gather=0 -c jit=off';

/** Counts, ids and offsets are 64 bits wide in PostgreSQL and stay far below 2^53 here: numbers, with a guard. */
const parseInt8 = (text: string): number => {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`${text} does not fit into a safe integer`);
  return value;
};

const typeParser: typeof pg.types.getTypeParser = (oid: number, format?: 'text' | 'binary') =>
  oid === pg.types.builtins.INT8 && format !== 'binary'
    ? parseInt8
    : pg.types.getTypeParser(oid, format as 'text');
