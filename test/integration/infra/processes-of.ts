import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** Every process that has to do with a data directory: by its arguments, its environment or where it works. */
export const processesOf = (dataDir: string): string[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => belongsTo(dataDir, pid))
    .map((pid) => `${pid} ${readProc(pid, 'cmdline').replaceAll('\0', ' ').slice(0, 120)}`);

const belongsTo = (dataDir: string, pid: string): boolean =>
  readProc(pid, 'cmdline').includes(dataDir) ||
  readProc(pid, 'environ').includes(dataDir) ||
  workingDirectory(pid).startsWith(dataDir);

/** Empty for a process that is gone by now, or that ended and waits to be collected. */
const readProc = (pid: string, file: 'cmdline' | 'environ'): string => {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
};

const workingDirectory = (pid: string): string => {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return '';
  }
};
