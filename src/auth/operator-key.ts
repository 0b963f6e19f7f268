import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { OperatorError } from '../operator-error.ts';

export interface OperatorKey {
  readonly key: string;
  /** True for the one process that made it: that one tells it to the operator. */
  readonly created: boolean;
  readonly file: string;
}

const keyPattern = /^[A-Za-z0-9_-]{43}$/;
const readTries = 50;
const readPauseMs = 20;

/** The key of this data directory. When two processes start at once, one makes it and the other reads it. */
export const loadOrCreateOperatorKey = async (dataDir: string): Promise<OperatorKey> => {
  const directory = resolve(dataDir);
  const file = join(directory, 'operator-key');
  const key = randomBytes(32).toString('base64url');
  try {
    mkdirSync(directory, { recursive: true });
    writeFileSync(file, `${key}\n`, { flag: 'wx', mode: 0o600, flush: true });
    return { key, created: true, file };
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') {
      return { key: await readKey(file), created: false, file };
    }
    throw new OperatorError(`The operator key cannot be kept in ${file}: ${(cause as Error).message}`, {
      remedy: 'Make the directory writable, or set MILLRACE_API_KEYS',
      cause,
    });
  }
};

/** The other process may have made the file and not yet written it. */
const readKey = async (file: string): Promise<string> => {
  for (let attempt = 1; ; attempt++) {
    const text = readText(file).trim();
    if (keyPattern.test(text)) return text;
    if (attempt >= readTries || text !== '') {
      throw new OperatorError(`${file} holds no operator key`, {
        remedy: 'Remove the file to have a new key made, or set MILLRACE_API_KEYS',
      });
    }
    await pause(readPauseMs);
  }
};

const readText = (file: string): string => {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new OperatorError(`The operator key in ${file} cannot be read: ${(cause as Error).message}`, {
      remedy: 'Make the file readable, or set MILLRACE_API_KEYS',
      cause,
    });
  }
};
