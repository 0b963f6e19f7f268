import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { OperatorError } from '../../../operator-error.ts';

export interface ServerUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

const candidates = ['postgres', 'nobody'];

/** PostgreSQL refuses to run as root. Undefined means: as whoever runs Millrace. Users are never created. */
export const findServerUser = async (): Promise<ServerUser | undefined> => {
  if (process.getuid?.() !== 0) return undefined;
  for (const name of candidates) {
    const uid = await idOf('-u', name);
    const gid = await idOf('-g', name);
    if (uid !== undefined && gid !== undefined) return { name, uid, gid };
  }
  throw new OperatorError('PostgreSQL does not run as root, and there is no user postgres or nobody', {
    remedy: 'Run Millrace as another user, or name a PostgreSQL in DATABASE_URL',
  });
};

const idOf = async (flag: '-u' | '-g', name: string): Promise<number | undefined> => {
  try {
    const { stdout } = await promisify(execFile)('id', [flag, name]);
    return Number.parseInt(stdout, 10);
  } catch {
    return undefined;
  }
};
