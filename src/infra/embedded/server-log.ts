import { closeSync, existsSync, fstatSync, openSync, readSync, renameSync } from 'node:fs';

const tailBytes = 64 * 1024;

/** One earlier log is kept beside the new one, so a log never outgrows two starts. */
export const rotateLog = (path: string): void => {
  if (existsSync(path)) renameSync(path, `${path}.1`);
};

/** The line that most likely says why a server gave up: its last fatal one, else its last error, else its last. */
export const lastTroubleIn = (path: string): string | undefined => {
  const lines = readTail(path)
    .split('\n')
    .filter((line) => line.trim() !== '');
  const index = [/\b(FATAL|PANIC)\b/, /\b(ERROR|Error|error):?\b/, /Exception\b/]
    .map((pattern) => lines.findLastIndex((line) => pattern.test(line) && !isStackFrame(line)))
    .find((found) => found >= 0);
  const line = lines[index ?? lines.length - 1];
  if (line === undefined) return undefined;
  const next = lines[(index ?? lines.length) + 1];
  return shortened(
    next && isException(next) ? `${withoutPrefix(line)}: ${next.trim()}` : withoutPrefix(line),
  );
};

const readTail = (path: string): string => {
  if (!existsSync(path)) return '';
  const file = openSync(path, 'r');
  try {
    const { size } = fstatSync(file);
    const length = Math.min(size, tailBytes);
    const buffer = Buffer.alloc(length);
    readSync(file, buffer, 0, length, size - length);
    return buffer.toString('utf8');
  } finally {
    closeSync(file);
  }
};

const isStackFrame = (line: string): boolean => /^\s+at /.test(line);
/** Java prints the exception on the line after the message that announces it. */
const isException = (line: string): boolean => /^[\w.$]+(Exception|Error)\b/.test(line);
const withoutPrefix = (line: string): string =>
  line.replace(/^\[?\d{4}-\d\d-\d\d[T ][\d:.,]+\s*(?:[A-Z]{3,4}\b)?\]?\s*(?:\[\d+\]:?\s*)?/, '').trim();
const shortened = (line: string): string => (line.length > 300 ? `${line.slice(0, 297)}...` : line);
