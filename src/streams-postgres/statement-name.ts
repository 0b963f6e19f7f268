import { createHash } from 'node:crypto';

/** Two projections may use the same table in different ways, and a name stands for one text only. */
export const statementName = (name: string, text: string): string =>
  `${name.slice(0, 50)}-${createHash('sha256').update(text).digest('hex').slice(0, 12)}`;
