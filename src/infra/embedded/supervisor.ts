import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Logger } from 'pino';
import { identifyProcess } from './process-identity.ts';
import type { RecordedChild } from './stack-state.ts';
import { Watchdog } from './watchdog.ts';

export interface Launch {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly user?: { readonly uid: number; readonly gid: number } | undefined;
  readonly stopSignal: 'SIGTERM' | 'SIGINT';
  /** A file descriptor for both outputs, or a pipe to read them. */
  readonly output: number | 'pipe';
}

interface Live extends RecordedChild {
  readonly stopSignal: 'SIGTERM' | 'SIGINT';
}

/**
 * The new process waits for a word before it becomes the server. By then the watchdog and the state file know
 * its pid, so there is no moment in which the parent could die and leave it behind unknown.
 */
const gate = 'read -r go && exec "$0" "$@" </dev/null';

const watchdogsLostMax = 5;

/** Starts every child process of a stack, and sees to it that none outlives this process. */
export class Supervisor {
  readonly #live = new Map<number, Live>();
  readonly #options: SupervisorOptions;
  readonly #endAllAtExit = () => this.#signalAll();
  #watchdog: Watchdog | undefined;
  #closed = false;
  #watchdogsLost = 0;

  private constructor(options: SupervisorOptions) {
    this.#options = options;
  }

  static async open(options: SupervisorOptions): Promise<Supervisor> {
    const supervisor = new Supervisor(options);
    process.on('exit', supervisor.#endAllAtExit);
    await supervisor.#startWatchdog();
    return supervisor;
  }

  /** The child leads its own process group: the terminal's Ctrl-C must not end servers before their clients. */
  async launch(launch: Launch): Promise<ChildProcess> {
    const child = spawn('/bin/sh', ['-c', gate, launch.command, ...launch.args], {
      cwd: launch.cwd,
      env: { ...this.#options.env, ...launch.env },
      ...(launch.user ?? {}),
      detached: true,
      stdio: ['pipe', launch.output, launch.output],
    });
    child.stdin?.on('error', () => undefined);
    await once(child, 'spawn');
    const pid = child.pid ?? 0;
    const identity = identifyProcess(pid);
    if (identity) this.#live.set(pid, { ...identity, name: launch.name, stopSignal: launch.stopSignal });
    child.once('exit', () => this.#forget(pid));
    await this.#watchdog?.watch({ pid, stopSignal: launch.stopSignal });
    this.#record();
    child.stdin?.end('go\n');
    return child;
  }

  /** Only after every child has been stopped. */
  async close(): Promise<void> {
    this.#closed = true;
    process.off('exit', this.#endAllAtExit);
    await this.#watchdog?.stop();
    this.#watchdog = undefined;
    this.#record();
  }

  async #startWatchdog(): Promise<void> {
    const watchdog = await Watchdog.start({ cwd: this.#options.cwd, env: this.#options.env });
    this.#watchdog = watchdog;
    for (const live of this.#live.values()) await watchdog.watch(live);
    this.#record();
    void watchdog.exited.then(() => this.#replaceWatchdog(watchdog.pid));
  }

  async #replaceWatchdog(pid: number): Promise<void> {
    if (this.#closed) return;
    const { log } = this.#options;
    if (this.#watchdogsLost++ === watchdogsLostMax) {
      log.error('the watchdog keeps ending: a crash of this process may leave servers behind');
      return;
    }
    log.warn({ pid }, 'the watchdog of the embedded servers is gone, starting another');
    await this.#startWatchdog().catch((error: unknown) =>
      log.error({ err: error }, 'no watchdog can be started'),
    );
  }

  #forget(pid: number): void {
    this.#live.delete(pid);
    void this.#watchdog?.forget(pid);
    this.#record();
  }

  #record(): void {
    const watchdog = this.#watchdog && identifyProcess(this.#watchdog.pid);
    this.#options.onChange([
      ...(watchdog ? [{ ...watchdog, name: 'watchdog' }] : []),
      ...[...this.#live.values()].map(({ name, pid, startedAt }) => ({ name, pid, startedAt })),
    ]);
  }

  /** The last resort when the process exits without stop(): the watchdog finishes what this begins. */
  #signalAll(): void {
    for (const { pid, stopSignal } of this.#live.values()) signalGroup(pid, stopSignal);
  }
}

export interface SupervisorOptions {
  readonly log: Logger;
  readonly cwd: string;
  /** What every child gets; it carries the data directory, so that a child can be told to belong to it. */
  readonly env: NodeJS.ProcessEnv;
  readonly onChange: (children: readonly RecordedChild[]) => void;
}

/** False when the group is gone already. */
export const signalGroup = (pid: number, signal: NodeJS.Signals): boolean => {
  try {
    return process.kill(-pid, signal);
  } catch {
    return false;
  }
};
