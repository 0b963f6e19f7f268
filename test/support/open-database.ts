import { type Database, openDatabase } from '../../src/postgres/database.ts';
import type { Workspace } from './stack.ts';

/** A pool on any server, patient with a busy machine; to be closed by whoever opens it. */
export const openDatabaseAt = (url: string, poolSizeMax: number): Database =>
  openDatabase({
    url,
    applicationName: 'millrace-spec',
    poolSizeMax,
    connectTimeoutMs: 30_000,
    statementTimeoutMs: 30_000,
    idleTransactionTimeoutMs: 30_000,
    onIdleError: () => {},
  });

/** What a pool needs to know of the spec that it belongs to. */
export interface DatabaseHome extends Pick<Workspace, 'closeAtEnd'> {
  readonly endpoints: Pick<Workspace['endpoints'], 'databaseUrl'>;
}

/** A pool on a spec's own database, closed with the workspace. */
export const openTestDatabase = (workspace: DatabaseHome, poolSizeMax = 4): Database => {
  const database = openDatabaseAt(workspace.endpoints.databaseUrl, poolSizeMax);
  workspace.closeAtEnd(() => database.close());
  return database;
};
