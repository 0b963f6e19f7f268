import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

export const findOnPath = (name: string, env: NodeJS.ProcessEnv): string | undefined =>
  (env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, name))
    .find(isExecutable);

export const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
};
