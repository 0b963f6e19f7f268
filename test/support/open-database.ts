import { type Database, openDatabase } from '../../src/postgres/database.ts';
import type { Workspace } from './stack.ts';

/** What a pool needs to know of the spec that it belongs to. */
export interface DatabaseHome extends Pick<Workspace, 'closeAtEnd'> {
  readonly endpoints: Pick<Workspace['endpoints'], 'databaseUrl'>;
}

/** A pool on a spec's own database, closed with the workspace. */
export const openTestDatabase = (workspace: DatabaseHome, poolSizeMax = 4): Database => {
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
