import { realpathSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

interface Owned {
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
}
interface User {
  readonly uid: number;
  readonly gid: number;
}

const read = 0o4;
const enter = 0o1;

/** The first class that fits decides alone, as in the kernel: an owner without the bit is refused. */
export const isAllowed = (file: Owned, user: User, bits: number): boolean => {
  if (user.uid === 0) return true;
  const shift = file.uid === user.uid ? 6 : file.gid === user.gid ? 3 : 0;
  return ((file.mode >> shift) & bits) === bits;
};

/** Whether the user gets as far as this directory: it and every directory above must let it in. */
export const canEnter = (directory: string, user: User): boolean =>
  withAncestors(realpathSync(directory)).every((path) => isAllowed(statSync(path), user, enter));

export const canRead = (file: string, user: User): boolean =>
  canEnter(dirname(file), user) && isAllowed(statSync(file), user, read);

export const canExecute = (file: string, user: User): boolean =>
  canEnter(dirname(file), user) && isAllowed(statSync(file), user, read | enter);

const withAncestors = (path: string): string[] =>
  dirname(path) === path ? [path] : [...withAncestors(dirname(path)), path];
