import pg, { type ClientBase, type Connection } from 'pg';
import { BinaryRowCollector, type BinaryRows } from './binary-rows.ts';
import type { Statement } from './database.ts';

export interface BinaryQueryOptions {
  /** Rows that would make the answer larger are left out; the first one never is. */
  readonly bytesMax: number;
  /** What the answer will probably take, so that its buffer has the right size from the start. */
  readonly bytesExpected?: number;
}

export interface BinaryAnswer {
  readonly rows: BinaryRows;
  /** What the server has sent, with what is not among the rows. */
  readonly received: { readonly rows: number; readonly bytes: number };
  /** Whether the server was still sending what would have been thrown away: the connection is of no use any more. */
  readonly isBrokenOff: boolean;
}

/** Not in pg's types, and what pg itself passes on to the server. */
interface BinaryQueryConfig {
  readonly name: string;
  readonly text: string;
  readonly values: unknown[];
  readonly binary: true;
  readonly rows?: number;
}

/** pg's query with what is not in its types. */
interface PortalQuery extends Omit<pg.Query, 'submit'> {
  rows?: number | undefined;
  submit: Submit;
  handlePortalSuspended(): void;
}

/** Answers with an error when it has not asked the server anything. */
type Submit = (connection: Connection) => Error | null;

/**
 * One statement on a connection that nobody else uses meanwhile. pg asks for binary values when told to, but then reads
 * them as text, which ruins them. So the rows are taken out of the connection's bytes before pg sees them; the rest of the
 * conversation stays pg's, from preparing to errors.
 */
export const queryBinary = async (
  client: ClientBase,
  statement: Statement,
  values: readonly unknown[],
  options: BinaryQueryOptions & {
    /** The server stops after so many rows, although the statement has more. */
    readonly rowsMax: number;
  },
): Promise<BinaryAnswer> => {
  const { bytesMax, bytesExpected = 0, rowsMax } = options;
  const { promise: answered, resolve, reject } = Promise.withResolvers<void>();
  let isAnswered = false;
  let isSuspended = false;
  let isBrokenOff = false;
  let passOn: (message: Buffer) => void = () => {};
  const collector = new BinaryRowCollector({ bytesExpected, bytesMax, passOn: (message) => passOn(message) });
  const config: BinaryQueryConfig = {
    ...statement,
    values: [...values],
    binary: true,
    ...(Number.isFinite(rowsMax) && { rows: rowsMax }),
  };
  const query = new pg.Query(config, (error) => {
    isAnswered = true;
    if (error) reject(error);
    else resolve();
  }) as unknown as PortalQuery;
  query.handlePortalSuspended = () => {
    isSuspended = true;
  };
  const { submit } = query;
  query.submit = (connection) => {
    passOn = tap(connection, {
      collector,
      isOver: () => isAnswered,
      wastedBytesMax: bytesMax,
      breakOff: () => {
        isBrokenOff = true;
        resolve();
      },
    });
    return submitAtOnce(query, connection, submit);
  };
  client.query(query as unknown as pg.Query);
  await answered;
  const { rows, received } = collector;
  return { rows: { ...rows, isCut: rows.isCut || isSuspended || isBrokenOff }, received, isBrokenOff };
};

/** With a limit pg would wait for the rows before it ends the statement: one more round trip, and more rows than asked for. */
const submitAtOnce = (query: PortalQuery, connection: Connection, submit: Submit): Error | null => {
  connection.stream.cork();
  try {
    const refusal = submit.call(query, connection);
    if (refusal || query.rows === undefined) return refusal;
    connection.sync();
    query.rows = undefined;
    return null;
  } finally {
    connection.stream.uncork();
  }
};

/** Lets the collector have the bytes until the answer is complete; gives back who would have had them. */
const tap = (
  { stream }: Connection,
  options: {
    collector: BinaryRowCollector;
    isOver: () => boolean;
    wastedBytesMax: number;
    breakOff: () => void;
  },
): ((message: Buffer) => void) => {
  const { collector, isOver, wastedBytesMax, breakOff } = options;
  const usual = stream.listeners('data') as ((bytes: Buffer) => void)[];
  const passOn = (message: Buffer): void => {
    for (const listener of usual) listener(message);
  };
  const take = (chunk: Buffer): void => {
    collector.take(chunk);
    if (!isOver()) {
      if (collector.wastedBytes <= wastedBytesMax) return;
      // Nothing more is read: the server waits, and hears of it when the connection is closed.
      stream.off('data', take);
      stream.pause();
      breakOff();
      return;
    }
    stream.off('data', take);
    for (const listener of usual) stream.on('data', listener);
    // After an error the server still says that it is ready, and half of that may have come.
    const { rest } = collector;
    if (rest.length > 0) passOn(rest);
  };
  stream.removeAllListeners('data');
  stream.on('data', take);
  return passOn;
};
