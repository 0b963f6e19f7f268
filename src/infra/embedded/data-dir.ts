import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { OperatorError } from '../../operator-error.ts';

/** Where everything of one embedded stack lies. */
export interface DataDir {
  readonly root: string;
  readonly marker: string;
  readonly lock: string;
  readonly state: string;
  readonly logs: string;
  /** Configuration files, written anew at every start. */
  readonly run: string;
  /** A directory, or a link to where the data had to go. */
  readonly postgres: string;
  readonly postgresPassword: string;
  readonly kafka: string;
  readonly redis: string;
}

const markerName = 'millrace-data';

export const dataDirAt = (path: string): DataDir => {
  const root = resolve(path);
  return {
    root,
    marker: join(root, markerName),
    lock: join(root, 'owner.lock'),
    state: join(root, 'stack.json'),
    logs: join(root, 'logs'),
    run: join(root, 'run'),
    postgres: join(root, 'postgres'),
    postgresPassword: join(root, 'postgres-password'),
    kafka: join(root, 'kafka'),
    redis: join(root, 'redis'),
  };
};

/** The operator's key may be written before the first server starts. */
const strangersTolerated = ['operator-key'];

/** Makes the directory and marks it as ours; one that holds something else is left alone. */
export const prepareDataDir = (dir: DataDir): void => {
  mkdirSync(dir.root, { recursive: true });
  const names = readdirSync(dir.root);
  if (!names.includes(markerName)) {
    if (names.some((name) => !strangersTolerated.includes(name))) {
      throw new OperatorError(`${dir.root} is not a Millrace data directory and not empty`, {
        remedy: 'Name an empty or new directory in MILLRACE_DATA_DIR',
      });
    }
    writeFileSync(dir.marker, 'Millrace made this directory, and `npm run reset` removes it.\n');
  }
  for (const path of [dir.logs, dir.run, dir.redis]) mkdirSync(path, { recursive: true });
};

export const isDataDir = (dir: DataDir): boolean => existsSync(dir.marker);
