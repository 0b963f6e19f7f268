import { createHash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  readlinkSync,
  realpathSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { OperatorError } from '../../../operator-error.ts';
import type { DataDir } from '../data-dir.ts';
import { canEnter } from './access.ts';
import type { ServerUser } from './server-user.ts';

/** Every user may enter this, and only root writes to it. */
export const relocationRoot = '/var/lib/millrace';

/** Where this data directory's PostgreSQL goes when its user cannot enter the data directory itself. */
export const relocatedPostgres = (dir: DataDir): string => {
  const hash = createHash('sha256').update(realpathSync(dir.root)).digest('hex').slice(0, 16);
  return join(relocationRoot, hash, 'postgres');
};

/**
 * The directory for PostgreSQL's data, whether or not it exists yet. One that lies below, say, a private home
 * directory is reached by root but not by the server's user: it moves, and a link is left that says where.
 */
export const locatePostgresData = (dir: DataDir, user: ServerUser | undefined): string => {
  const link = readLink(dir.postgres);
  if (link !== undefined) return ownRelocation(dir, link);
  const exists = lstatSync(dir.postgres, { throwIfNoEntry: false }) !== undefined;
  if (exists || user === undefined) return dir.postgres;
  if (!canEnter(dir.root, user) && canEnter(dirname(dir.root), user)) admit(user, dir.root);
  if (canEnter(dir.root, user)) return dir.postgres;
  const elsewhere = relocatedPostgres(dir);
  mkdirSync(dirname(elsewhere), { recursive: true, mode: 0o755 });
  symlinkSync(elsewhere, dir.postgres);
  return elsewhere;
};

/** The data directory itself is ours: the server's group may pass through it, and nobody else. */
const admit = (user: ServerUser, directory: string): void => {
  const { uid, mode } = statSync(directory);
  chownSync(directory, uid, user.gid);
  chmodSync(directory, (mode & 0o777) | 0o010);
};

export const readLink = (path: string): string | undefined =>
  lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ? readlinkSync(path) : undefined;

/** A copied data directory brings a link to the original's data along, which is not its own. */
const ownRelocation = (dir: DataDir, target: string): string => {
  if (target === relocatedPostgres(dir)) return target;
  throw new OperatorError(
    `The PostgreSQL data that ${dir.postgres} points to belongs to another data directory`,
    {
      remedy: 'Move the data directory back to where it was, or begin anew here with: npm run reset',
    },
  );
};
