import type { Logger } from 'pino';
import type { Endpoints, Infrastructure, ReportProgress } from '../infrastructure.ts';
import type { Needs } from '../infrastructure-plan.ts';

export interface DockerOrder {
  readonly needs: Needs;
  readonly log: Logger;
  readonly report: ReportProgress;
  readonly signal: AbortSignal | undefined;
}

/** Servers in containers: compose for a start, testcontainers in tests. */
export interface DockerProvider {
  start(order: DockerOrder): Promise<Infrastructure>;
  /** Where the servers are when they run already. */
  findRunning(): Promise<Endpoints | undefined>;
}
