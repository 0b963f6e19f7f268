import {
  closeSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';

/**
 * Appends lines to a file; on disk when it returns, not only on its way there. Answers for each line with nothing, or with
 * why it could not be written: of such a line nothing stays.
 */
export const appendLines = (file: string, lines: readonly string[]): readonly (Error | undefined)[] => {
  mkdirSync(dirname(file), { recursive: true });
  const descriptor = openSync(file, 'a+', 0o600);
  try {
    const outcomes = lines.map((line) => {
      try {
        appendLine(descriptor, line);
        return undefined;
      } catch (error) {
        return error as Error;
      }
    });
    fsyncSync(descriptor);
    return outcomes;
  } finally {
    closeSync(descriptor);
  }
};

/** A disk that is nearly full takes a part of the bytes and says so only in the count. */
const appendLine = (descriptor: number, line: string): void => {
  const { size } = fstatSync(descriptor);
  const bytes = Buffer.from(`${isInMidLine(descriptor, size) ? '\n' : ''}${line}\n`);
  let written = 0;
  try {
    while (written < bytes.length) {
      const more = writeSync(descriptor, bytes, written);
      if (more === 0) throw new Error('The file takes no more bytes');
      written += more;
    }
  } catch (error) {
    takeBack(descriptor, { size, written });
    throw error;
  }
};

/** A process that ended while it wrote has left half a line: it must not spoil the one that follows. */
const isInMidLine = (descriptor: number, size: number): boolean => {
  if (size === 0) return false;
  const last = Buffer.alloc(1);
  return readSync(descriptor, last, 0, 1, size - 1) === 1 && last.toString() !== '\n';
};

/** Unless another process has appended since: what it wrote must not be cut off with it. */
const takeBack = (descriptor: number, { size, written }: { size: number; written: number }): void => {
  try {
    if (fstatSync(descriptor).size === size + written) ftruncateSync(descriptor, size);
  } catch {
    // The half line stays then, and the next one begins behind it.
  }
};
