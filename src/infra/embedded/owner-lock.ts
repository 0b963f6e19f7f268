import { existsSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

export interface OwnerLock {
  release(): void;
}

const sqliteBusy = 5;

/**
 * One owner per data directory, or undefined when there is one already. SQLite brings the operating system's
 * file locks to Node without a native package: the kernel frees them when the process dies in any way, so
 * there is no stale lock, and nothing to take over that two could take over at once.
 */
export const tryOwnerLock = (path: string): OwnerLock | undefined => {
  const database = new DatabaseSync(path);
  try {
    database.exec('pragma busy_timeout = 0; begin exclusive');
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode === sqliteBusy) return undefined;
    throw error;
  }
  const lock = { release: () => database.isOpen && database.close() };
  // A reset that ended between open and lock took the file with it: what is locked then is nobody's.
  if (existsSync(path)) return lock;
  lock.release();
  return undefined;
};
