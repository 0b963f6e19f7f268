import type { ClientBase } from 'pg';
import {
  type CommonQueryMethods,
  createDriverFactory,
  createPool,
  type DriverCommand,
  type Interceptor,
  type QueryResultRow,
  SchemaValidationError,
} from 'slonik';

const bound = new WeakMap<ClientBase, Promise<CommonQueryMethods>>();

/**
 * Slonik's checked queries on a pg connection that we hold, so that both speak in one transaction.
 * Slonik wants a pool: it gets one whose only connection is the given one, kept as long as that connection lives.
 */
export const slonikOverClient = (client: ClientBase): Promise<CommonQueryMethods> => {
  const existing = bound.get(client);
  if (existing) return existing;
  const created = createPool('postgresql://', {
    driverFactory: driverOver(client),
    maxPoolSize: 1,
    idleTimeout: 'DISABLE_TIMEOUT',
    maximumConnectionAge: 'DISABLE_TIMEOUT',
    // The connection is reset by whoever borrowed it from the real pool.
    resetConnection: async () => {},
    interceptors: [parseRows],
    queryRetryLimit: 0,
    transactionRetryLimit: 0,
  });
  bound.set(client, created);
  return created;
};

const driverOver = (client: ClientBase) =>
  createDriverFactory(async () => ({
    createPoolClient: async () => ({
      connect: async () => {},
      end: async () => {},
      query: async (text, values) => {
        const result = await client.query(text, values);
        return {
          command: result.command as DriverCommand,
          fields: result.fields.map((field) => ({ dataTypeId: field.dataTypeID, name: field.name })),
          rowCount: result.rowCount,
          rows: result.rows as Array<Record<string, unknown>>,
        };
      },
      stream: () => {
        throw new Error('Rows are streamed with COPY through pg, not through slonik.');
      },
    }),
  }));

/** A row that is not what the query's schema says is a bug that must not travel on. */
const parseRows: Interceptor = {
  name: 'parse-rows',
  transformRow: ({ resultParser }, query, row) => {
    if (!resultParser) return row;
    const result = resultParser['~standard'].validate(row);
    if (result instanceof Promise) throw new Error('Row schemas are synchronous.');
    if (result.issues) throw new SchemaValidationError(query, row, result.issues);
    return result.value as QueryResultRow;
  },
};
