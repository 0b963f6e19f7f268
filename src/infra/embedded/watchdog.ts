import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

/**
 * A shell that outlives its parent on purpose: it learns the process groups over its standard input, and when
 * that ends, because the parent stopped in whatever way, it ends the groups that are still on its list.
 */
const script = `
groups=""
while read -r action group signal; do
  kept=""
  for entry in $groups; do
    [ "\${entry%:*}" = "$group" ] || kept="$kept $entry"
  done
  groups=$kept
  [ "$action" = watch ] && groups="$groups $group:$signal"
done
for entry in $groups; do kill -s "\${entry#*:}" -- "-\${entry%:*}" 2>/dev/null; done
tenths=0
while [ $tenths -lt 80 ]; do
  alive=""
  for entry in $groups; do kill -s 0 -- "-\${entry%:*}" 2>/dev/null && alive=yes; done
  [ -z "$alive" ] && exit 0
  sleep 0.1
  tenths=$((tenths + 1))
done
for entry in $groups; do kill -s KILL -- "-\${entry%:*}" 2>/dev/null; done
`;

export interface WatchedGroup {
  readonly pid: number;
  readonly stopSignal: 'SIGTERM' | 'SIGINT';
}

export class Watchdog {
  readonly #process: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#process = child;
  }

  /** Detached, so that neither the terminal's Ctrl-C nor the end of the parent's group reaches it. */
  static async start(options: { cwd: string; env: NodeJS.ProcessEnv }): Promise<Watchdog> {
    const child = spawn('/bin/sh', ['-c', script, 'millrace-watchdog'], {
      ...options,
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    // Writing to a watchdog that was killed must not end the process; its exit is what gets noticed.
    child.stdin?.on('error', () => undefined);
    await once(child, 'spawn');
    return new Watchdog(child);
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  get exited(): Promise<unknown> {
    return this.#process.exitCode === null && this.#process.signalCode === null
      ? once(this.#process, 'exit')
      : Promise.resolve();
  }

  watch(group: WatchedGroup): Promise<void> {
    return this.#tell(`watch ${group.pid} ${group.stopSignal.replace('SIG', '')}`);
  }

  forget(pid: number): Promise<void> {
    return this.#tell(`forget ${pid} -`);
  }

  /** The end of its input is the watchdog's signal; with nothing left to watch it just goes. */
  async stop(): Promise<void> {
    const exited = this.exited;
    this.#process.stdin?.end();
    await exited;
  }

  #tell(line: string): Promise<void> {
    return new Promise((resolve) => {
      if (!this.#process.stdin?.writable) return resolve();
      this.#process.stdin.write(`${line}\n`, () => resolve());
    });
  }
}
