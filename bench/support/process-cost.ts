import { readdirSync, readFileSync } from 'node:fs';

/** The kernel counts in hundredths of a second. */
const ticksPerSecond = 100;

interface ProcessStat {
  readonly parent: number;
  /** Its own time, in ticks. */
  readonly own: number;
  /** That of children which have ended. */
  readonly ofEnded: number;
}

const statOf = (pid: number): ProcessStat | undefined => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The program's name stands in parentheses and may contain anything.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const at = (index: number): number => Number(fields[index]);
    return { parent: at(1), own: at(11) + at(12), ofEnded: at(13) + at(14) };
  } catch {
    return undefined;
  }
};

/** CPU time of one process with all its threads. */
export const cpuSecondsOf = (pid: number): number => (statOf(pid)?.own ?? 0) / ticksPerSecond;

/** CPU time of a server that forks, as PostgreSQL does: its children count, also those that have ended. */
export const cpuSecondsOfTree = (root: number): number => {
  const stats = new Map<number, ProcessStat>();
  for (const name of readdirSync('/proc')) {
    const stat = /^\d+$/.test(name) ? statOf(Number(name)) : undefined;
    if (stat) stats.set(Number(name), stat);
  }
  const belongs = (pid: number): boolean => {
    if (pid === root) return true;
    const stat = stats.get(pid);
    return stat !== undefined && stat.parent > 1 && belongs(stat.parent);
  };
  let ticks = 0;
  for (const [pid, { own, ofEnded }] of stats) if (belongs(pid)) ticks += own + ofEnded;
  return ticks / ticksPerSecond;
};

/** The most memory the process has had at once since it started, in MB. */
export const peakMemoryMbOf = (pid: number): number => {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Math.round(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
};
