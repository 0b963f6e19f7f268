import { type AuditEntry, writeAudit } from '../operator-audit/write-audit.ts';
import type { SqlRunner } from '../postgres/database.ts';
import { tellReplaced } from '../streams-postgres/builds/tell-replaced.ts';
import { type Build, schemaOf, setStatus } from './build.ts';
import { executeAll } from './execute-ddl.ts';

export interface Swap {
  readonly projection: string;
  readonly liveVersion: number;
  readonly build: Build;
  readonly tables: readonly string[];
  readonly audit: AuditEntry;
}

// Shorter than the time after which PostgreSQL looks for deadlocks: a query that the tables wait for is never the victim.
const lockTimeoutStatement = {
  name: 'lock-timeout-of-swap',
  text: `select set_config('lock_timeout', '500ms', true)`,
};

/**
 * Lets two builds change places, in the transaction that holds the live one. Queries wait for a moment and then find the
 * other tables under the same names; nobody sees one of them without the other.
 */
export const swapBuilds = async (
  tx: SqlRunner,
  { projection, liveVersion, build, tables, audit }: Swap,
): Promise<void> => {
  const [away, here] = [schemaOf({ projection, version: liveVersion }), schemaOf(build)];
  await tx.execute(lockTimeoutStatement);
  await executeAll(tx, [
    `create schema ${away}`,
    ...tables.flatMap((table) => [
      `alter table public.${table} set schema ${away}`,
      `alter table ${here}.${table} set schema public`,
    ]),
    `drop schema ${here}`,
  ]);
  const isSwapped =
    (await setStatus(tx, { projection, version: liveVersion }, 'retired')) &&
    (await setStatus(tx, build, 'live'));
  if (!isSwapped)
    throw new Error(`Build ${build.version} of ${projection} cannot take the place of ${liveVersion}`);
  // Who has shown rows of the old tables has to ask again: nothing tells which of them differ.
  await tellReplaced(tx, tables);
  await writeAudit(tx, audit);
};
