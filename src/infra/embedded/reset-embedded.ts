import { existsSync, readdirSync, rmdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Logger } from 'pino';
import type { Config } from '../../config/settings.ts';
import { OperatorError } from '../../operator-error.ts';
import { type DataDir, dataDirAt, isDataDir } from './data-dir.ts';
import { tryOwnerLock } from './owner-lock.ts';
import { readLink, relocatedPostgres } from './postgres/relocation.ts';
import { readStackState } from './stack-state.ts';
import { stopStaleChildren } from './stale-children.ts';

/** Removes all data of the embedded servers, wherever it lies, and tells what. Downloads stay. */
export const resetEmbedded = async (
  config: Config,
  { log, dryRun = false }: { log: Logger; dryRun?: boolean },
): Promise<readonly string[]> => {
  const dir = dataDirAt(config.infra.dataDir);
  if (!existsSync(dir.root)) return [];
  if (!isDataDir(dir)) {
    throw new OperatorError(`${dir.root} is not a Millrace data directory, so nothing in it gets removed`, {
      remedy: 'Correct MILLRACE_DATA_DIR, or remove the directory yourself',
    });
  }
  const lock = tryOwnerLock(dir.lock);
  if (!lock) throw stillRunning(dir);
  try {
    const relocated = findRelocated(dir, log);
    const doomed = [...(relocated ? [relocated] : []), dir.root];
    if (dryRun) return doomed;
    await stopStaleChildren(readStackState(dir.state), log);
    if (relocated) rmSync(relocated, { recursive: true, force: true });
    removeContents(dir);
    return doomed;
  } finally {
    lock.release();
  }
};

const stillRunning = (dir: DataDir): OperatorError => {
  const pid = readStackState(dir.state)?.owner.pid;
  const owner = pid === undefined ? 'A process' : `Process ${pid}`;
  return new OperatorError(`${owner} runs servers in ${dir.root}`, {
    remedy: 'Stop it first, with Ctrl-C where it was started',
  });
};

const findRelocated = (dir: DataDir, log: Logger): string | undefined => {
  const target = readLink(dir.postgres);
  if (target === undefined) return undefined;
  if (target === relocatedPostgres(dir)) return dirname(target);
  log.warn(`leaving ${target} alone: it belongs to another data directory`);
  return undefined;
};

/** The marker and the lock go last: a reset that is interrupted can be repeated. */
const removeContents = (dir: DataDir): void => {
  const last = [basename(dir.marker), basename(dir.lock)];
  const first = readdirSync(dir.root).filter((name) => !last.includes(name));
  for (const name of [...first, ...last]) rmSync(join(dir.root, name), { recursive: true, force: true });
  try {
    rmdirSync(dir.root);
  } catch {
    // A mounted volume cannot be removed from inside; empty is as good.
  }
};
