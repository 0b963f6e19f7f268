import type { Logger } from 'pino';
import type { Endpoints } from '../../src/infra/infrastructure.ts';
import type { Database } from '../../src/postgres/database.ts';
import type { ServerPids } from '../support/servers.ts';

/** What every part of the relay's benchmark needs. */
export interface RelayBench {
  readonly endpoints: Endpoints;
  readonly pids: ServerPids;
  readonly db: Database;
  readonly log: Logger;
}
