import pg, { type ClientBase, type Connection } from 'pg';
import { BinaryRowCollector, type BinaryRows } from './binary-rows.ts';
import type { Statement } from './database.ts';

export interface BinaryQueryOptions {
  /** Rows that would make the answer larger are left out; the first one never is. */
  readonly bytesMax: number;
  /** What the answer will probably take, so that its buffer has the right size from the start. */
  readonly bytesExpected?: number;
}

/** Not in pg's types, and what pg itself passes on to the server. */
interface BinaryQueryConfig {
  readonly name: string;
  readonly text: string;
  readonly values: unknown[];
  readonly binary: true;
}

/**
 * One statement on a connection that nobody else uses meanwhile. pg asks for binary values when told to, but then reads
 * them as text, which ruins them. So the rows are taken out of the connection's bytes before pg sees them; the rest of the
 * conversation stays pg's, from preparing to errors.
 */
export const queryBinary = async (
  client: ClientBase,
  statement: Statement,
  values: readonly unknown[],
  options: BinaryQueryOptions,
): Promise<BinaryRows> => {
  const { promise: answered, resolve, reject } = Promise.withResolvers<void>();
  let isAnswered = false;
  let passOn: (message: Buffer) => void = () => {};
  const collector = new BinaryRowCollector({
    bytesExpected: options.bytesExpected ?? 0,
    bytesMax: options.bytesMax,
    passOn: (message) => passOn(message),
  });
  const config: BinaryQueryConfig = { ...statement, values: [...values], binary: true };
  const query = new pg.Query(config, (error) => {
    isAnswered = true;
    if (error) reject(error);
    else resolve();
  });
  const submit = query.submit;
  query.submit = (connection) => {
    passOn = tap(connection, { collector, isOver: () => isAnswered });
    return submit.call(query, connection);
  };
  client.query(query);
  await answered;
  return collector.rows;
};

/** Lets the collector have the bytes until the answer is complete; gives back who would have had them. */
const tap = (
  { stream }: Connection,
  { collector, isOver }: { collector: BinaryRowCollector; isOver: () => boolean },
): ((message: Buffer) => void) => {
  const usual = stream.listeners('data') as ((bytes: Buffer) => void)[];
  const passOn = (message: Buffer): void => {
    for (const listener of usual) listener(message);
  };
  const take = (chunk: Buffer): void => {
    collector.take(chunk);
    if (!isOver()) return;
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
