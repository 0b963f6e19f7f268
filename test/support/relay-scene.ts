import { storeWriterSchemas } from '../../src/journal/writer-schemas.ts';
import type { Database } from '../../src/postgres/database.ts';
import { openTestDatabase } from './open-database.ts';
import { createRelayJudge, type RelayJudge } from './relay-invariants.ts';
import { useRelayProcesses } from './relay-processes.ts';
import { useWorkspace, type Workspace } from './stack.ts';
import { useWriting } from './write-aggregates.ts';

/** What every spec about relays in trouble needs: an empty journal, writers, relays as processes, and the judge. */
export const useRelayScene = (
  options: {
    /** Servers in place of the shared ones. */
    readonly endpoints?: () => Partial<Workspace['endpoints']>;
  } = {},
) => {
  const shared = useWorkspace();
  const workspace = (): Workspace => {
    const space = shared();
    return { ...space, endpoints: { ...space.endpoints, ...options.endpoints?.() } };
  };
  let db: Database;
  let judge: RelayJudge;
  const database = (): Database => db;
  before(async () => {
    db = openTestDatabase(workspace(), 12);
    judge = createRelayJudge({ database: db, workspace: workspace() });
    await storeWriterSchemas(db);
  });
  return {
    workspace,
    database,
    judge: () => judge,
    relays: useRelayProcesses(workspace),
    writers: useWriting(database),
  };
};
