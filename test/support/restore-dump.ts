import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';

const tablesStatement = `
  select quote_ident(relname) as name from pg_class
  where relnamespace = 'public'::regnamespace and relkind = 'r' and not relispartition and relname <> 'schema_migration'
  order by 1`;
const sequencesStatement = `
  select quote_literal(sequencename) as name, coalesce(last_value, 1) as value, last_value is not null as used
  from pg_sequences where schemaname = 'public'`;

const withClient = async (url: string, routine: (client: pg.Client) => Promise<void>): Promise<void> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await routine(client);
  } finally {
    await client.end();
  }
};

/**
 * All rows of one database into a migrated one on another server, as they are, with the values of the sequences: what
 * pg_dump and pg_restore do. The servers' package has neither program.
 */
export const restoreDump = async ({ from, to }: { from: string; to: string }): Promise<void> => {
  const directory = mkdtempSync(join(tmpdir(), 'millrace-dump-'));
  // Both servers write and read here, under whatever user they run.
  chmodSync(directory, 0o777);
  const fileOf = (table: string): string => join(directory, `${table.replaceAll('"', '')}.copy`);
  try {
    const tables: string[] = [];
    const sequences: { name: string; value: string; used: boolean }[] = [];
    await withClient(from, async (client) => {
      await client.query('begin isolation level repeatable read');
      tables.push(...(await client.query(tablesStatement)).rows.map(({ name }) => name as string));
      sequences.push(...(await client.query(sequencesStatement)).rows);
      for (const table of tables) await client.query(`copy ${table} to '${fileOf(table)}'`);
      await client.query('commit');
    });
    await withClient(to, async (client) => {
      await client.query('begin; set local session_replication_role = replica');
      await client.query(`truncate ${tables.join(', ')} cascade`);
      for (const table of tables) await client.query(`copy ${table} from '${fileOf(table)}'`);
      for (const { name, value, used } of sequences)
        await client.query(`select setval(${name}, ${value}, ${used})`);
      await client.query('commit');
    });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
};
