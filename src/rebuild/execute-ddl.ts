import { createHash } from 'node:crypto';
import type { SqlRunner } from '../postgres/database.ts';

/** Statements that make, move or drop tables, one after the other. */
export const executeAll = async (tx: SqlRunner, statements: readonly string[]): Promise<void> => {
  for (const text of statements) {
    const name = `ddl-${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
    await tx.execute({ name, text });
  }
};
