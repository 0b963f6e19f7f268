import { linkSync, readFileSync, renameSync, unlinkSync } from 'node:fs';
import { OperatorError } from '../operator-error.ts';
import type { Database } from '../postgres/database.ts';
import { type ImportedLine, importLetters } from './import-letters.ts';

export interface ImportReport {
  readonly dryRun: boolean;
  /** Where the file is now; as it was after a dry run. */
  readonly file: string;
  readonly lines: readonly ImportedLine[];
}

/** Reads what the relay wrote when the table did not take its dead letters, and puts the file out of the way. */
export const importBackup = async (
  database: Database,
  file: string,
  { who, dryRun, now }: { who: string; dryRun: boolean; now: Date },
): Promise<ImportReport> => {
  if (dryRun)
    return { dryRun, file, lines: await importLetters(database, read(file), { who, dryRun, file }) };
  // Moved before it is read: what a relay writes from now on begins a new file and waits for the next import.
  const moved = `${file}.imported-${now.toISOString().replaceAll(':', '-')}`;
  move(file, moved);
  try {
    const lines = await importLetters(database, read(moved), { who, dryRun, file: moved });
    return { dryRun, file: moved, lines };
  } catch (cause) {
    const place = putBack(moved, file);
    throw new OperatorError(`The import of ${file} broke off: ${(cause as Error).message}`, {
      remedy: `Import ${place} again when the database is well: what is there already stays as it is`,
      cause,
    });
  }
};

const unusable = (file: string, cause: unknown): OperatorError =>
  new OperatorError(`${file} cannot be read: ${(cause as Error).message}`, {
    remedy: 'Name the backup file of the relay, dead-letters.jsonl in its data directory',
    cause,
  });

const read = (file: string): string => {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw unusable(file, cause);
  }
};

const move = (from: string, to: string): void => {
  try {
    renameSync(from, to);
  } catch (cause) {
    throw unusable(from, cause);
  }
};

/** Under its old name again, unless a relay has begun a new file there: that must not be overwritten. */
const putBack = (moved: string, file: string): string => {
  try {
    linkSync(moved, file);
    unlinkSync(moved);
    return file;
  } catch {
    return moved;
  }
};
