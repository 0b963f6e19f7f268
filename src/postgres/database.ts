import pg, { type PoolClient } from 'pg';
import type { CommonQueryMethods } from 'slonik';
import type { BinaryRows } from './binary-rows.ts';
import { type BinaryQueryOptions, queryBinary } from './query-binary.ts';
import { RowLimits } from './row-limits.ts';
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
  /**
   * The fastest way to many rows: bytes as the server sends them, for whoever knows what they mean. Statements are to
   * find their rows along an index, in its order.
   */
  readBinary(
    statement: Statement,
    values: readonly unknown[],
    options: BinaryQueryOptions,
  ): Promise<BinaryRows>;
  close(): Promise<void>;
}

export interface DatabaseOptions {
  readonly url: string;
  readonly applicationName: string;
  readonly poolSizeMax: number;
  readonly connectTimeoutMs: number;
  readonly statementTimeoutMs: number;
  /** A process that sleeps in mid-transaction must not keep its locks: others wait for them. */
  readonly idleTransactionTimeoutMs: number;
  /** Settings of the server for these connections. */
  readonly serverSettings?: Readonly<Record<string, string>>;
  /** Called for a connection that breaks while nobody uses it; the pool replaces it by itself. */
  readonly onIdleError: (error: Error) => void;
}

export const openDatabase = (options: DatabaseOptions): Database => {
  const pool = openPool(options, sessionSettings);
  /** Opens no connection before the first one reads. */
  const readers = openPool(options, `${sessionSettings} ${alongAnIndex}`);
  const rowLimits = new RowLimits();

  return {
    execute: async (statement, values) =>
      (await pool.query({ ...statement, values: [...(values ?? [])] })).rows,
    checked: (routine) => withClient(pool, async (client) => routine(await slonikOverClient(client))),
    transaction: (routine) => inTransaction(pool, routine),
    readBinary: (statement, values, options) =>
      withClient(readers, (client, giveUp) =>
        readRows(client, { giveUp, rowLimits }, statement, values, options),
      ),
    close: async () => {
      await Promise.all([pool.end(), readers.end()]);
    },
  };
};

/** Asks for as many rows as will probably fit; the sizes of those that come say how many that is the next time. */
const readRows = async (
  client: PoolClient,
  { giveUp, rowLimits }: { giveUp: (reason: Error) => void; rowLimits: RowLimits },
  ...[statement, values, options]: Parameters<Database['readBinary']>
): Promise<BinaryRows> => {
  try {
    const rowsMax = rowLimits.of(statement.name);
    const { rows, received, isBrokenOff } = await queryBinary(client, statement, values, {
      ...options,
      rowsMax,
    });
    rowLimits.learn(statement.name, { ...received, bytesMax: options.bytesMax });
    if (isBrokenOff)
      giveUp(new Error('The rows were larger than expected; the rest of them was not waited for'));
    return rows;
  } catch (error) {
    // As the pool does with its own queries: the server may have said this as its last word.
    giveUp(error as Error);
    throw error;
  }
};

const openPool = (options: DatabaseOptions, settings: string): pg.Pool => {
  const pool = new pg.Pool({
    connectionString: options.url,
    application_name: options.applicationName,
    max: options.poolSizeMax,
    connectionTimeoutMillis: options.connectTimeoutMs,
    statement_timeout: options.statementTimeoutMs,
    idle_in_transaction_session_timeout: options.idleTransactionTimeoutMs,
    types: { getTypeParser: typeParser },
    options: [
      settings,
      ...Object.entries(options.serverSettings ?? {}).map(([name, value]) => `-c ${name}=${value}`),
    ].join(' '),
  });
  pool.on('error', options.onIdleError);
  return pool;
};

/** A connection for as long as the routine takes; one that broke, or is in an unknown state, is not handed out again. */
const withClient = async <T>(
  pool: pg.Pool,
  routine: (client: PoolClient, giveUp: (reason: Error) => void) => Promise<T>,
): Promise<T> => {
  const client = await pool.connect();
  let broken: Error | undefined;
  const giveUp = (reason: Error): void => {
    broken = reason;
  };
  // The statement under way fails as well; without a listener this would end the process.
  client.on('error', giveUp);
  try {
    return await routine(client, giveUp);
  } finally {
    client.off('error', giveUp);
    client.release(broken);
  }
};

const inTransaction = <T>(pool: pg.Pool, routine: (tx: SqlRunner) => Promise<T>): Promise<T> =>
  withClient(pool, async (client, giveUp) => {
    try {
      await client.query('begin');
      const result = await routine(runnerOn(client));
      await client.query('commit');
      return result;
    } catch (error) {
      // A connection that cannot even roll back is in an unknown state.
      await client.query('rollback').catch(giveUp);
      throw error;
    }
  });

const runnerOn = (client: PoolClient): SqlRunner => ({
  execute: async (statement, values) =>
    (await client.query({ ...statement, values: [...(values ?? [])] })).rows,
  checked: async (routine) => routine(await slonikOverClient(client)),
});

// Every statement here touches few rows through an index. The planner does not know that of a snapshot's delta and would
// start workers, or compile, for ten milliseconds and more each time.
const sessionSettings = '-c max_parallel_workers_per_gather=0 -c jit=off';

// Of a table without statistics, such as one that has just been filled, the planner believes that few rows match: it would
// collect and sort all of them for every page, which takes 600 ms where a walk along the index takes one.
const alongAnIndex =
  '-c enable_seqscan=off -c enable_bitmapscan=off -c enable_sort=off -c plan_cache_mode=force_generic_plan';

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
