import { type Database, openDatabase } from '../../src/postgres/database.ts';
import type { Workspace } from './stack.ts';

/** A pool on a spec's own database, closed with the workspace. */
export const openTestDatabase = (workspace: Workspace, poolSizeMax = 4): Database => {
  const database = openDatabase({
    url: workspace.endpoints.databaseUrl,
    applicationName: 'millrace-spec',
    poolSizeMax,
    connectTimeoutMs: 30_000,
    statementTimeoutMs: 30_000,
    idleTransactionTimeoutMs: 30_000,
    onIdleError: () => {},
  });
  workspace.closeAtEnd(() => database.close());
  return database;
};
