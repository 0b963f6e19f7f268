import { readdirSync } from 'node:fs';
import { runner } from 'node-pg-migrate';
import pg from 'pg';
import { migrationsDir } from '../../src/postgres/migrate.ts';

/** The database as it was before a migration, and empty. */
export const migrateUpTo = async (url: string, migration: string): Promise<void> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query('drop schema public cascade; create schema public');
    await runner({
      dbClient: client,
      dir: migrationsDir,
      direction: 'up',
      count: readdirSync(migrationsDir).filter((file) => file < migration).length,
      migrationsTable: 'schema_migration',
      log: () => {},
    });
  } finally {
    await client.end();
  }
};
