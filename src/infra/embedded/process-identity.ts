import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** A pid alone is reused by the system; with the time the process started it names one process for good. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly startedAt: string;
}

/** Undefined when no such process runs; one that has ended and waits to be collected does not run. */
export const identifyProcess = (pid: number): ProcessIdentity | undefined => {
  const startedAt = process.platform === 'linux' ? startFromProc(pid) : startFromPs(pid);
  return startedAt === undefined ? undefined : { pid, startedAt };
};

export const isRunning = (identity: ProcessIdentity): boolean =>
  identifyProcess(identity.pid)?.startedAt === identity.startedAt;

export const ownIdentity = (): ProcessIdentity => {
  const identity = identifyProcess(process.pid);
  if (!identity) throw new Error('this process cannot find itself in the process table');
  return identity;
};

/** The kernel counts in ticks since boot, so the boot has to be part of the identity. */
const startFromProc = (pid: number): string | undefined => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command's name may contain spaces and brackets; the fields after its last bracket do not.
    const [state, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const startTicks = rest[18];
    return state === 'Z' || state === 'X' ? undefined : `${bootId()}/${startTicks}`;
  } catch {
    return undefined;
  }
};

const bootId = (): string => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

const startFromPs = (pid: number): string | undefined => {
  try {
    const args = ['-o', 'stat=,lstart=', '-p', String(pid)];
    const line = execFileSync('ps', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
    return line === '' || line.startsWith('Z') ? undefined : line.replace(/^\S+\s+/, '');
  } catch {
    return undefined;
  }
};
