import type { Logger } from 'pino';
import type { Config } from '../../config/settings.ts';
import type { ReportProgress } from '../infrastructure.ts';
import type { Needs } from '../infrastructure-plan.ts';
import type { DataDir } from './data-dir.ts';
import type { ServerSpec } from './managed-server.ts';
import type { Supervisor } from './supervisor.ts';

/** What somebody who wants a stack says about it. */
export interface StackOrder {
  readonly config: Config;
  readonly needs: Needs;
  readonly log: Logger;
  readonly report: ReportProgress;
  /** Where Java, Maven and Redis are looked for. */
  readonly env: NodeJS.ProcessEnv;
  readonly signal: AbortSignal | undefined;
}

/** What the servers are started with. */
export interface StackKit extends StackOrder {
  readonly dir: DataDir;
  readonly ports: Readonly<Record<string, number>>;
  readonly supervisor: Supervisor;
  /** Aborts when the start is called off or another server has failed. */
  readonly signal: AbortSignal;
  /** Ends the start of everything else; the first reason is the one that gets told. */
  readonly callOff: (reason: Error) => void;
  /** Starts a server and comes back when it is healthy. */
  readonly run: (spec: ServerSpec) => Promise<void>;
}

export const portOf = (kit: Pick<StackKit, 'ports'>, name: string): number => {
  const port = kit.ports[name];
  if (port === undefined) throw new Error(`no port was chosen for ${name}`);
  return port;
};
