import { readdirSync } from 'node:fs';
import { expect } from 'chai';
import pg from 'pg';
import { migrate, migrationsDir } from '../../../src/postgres/migrate.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const options = { log: silentLog(), connectTimeoutMs: 5000 };

describe('migrate', () => {
  const workspace = useWorkspace();
  const files = readdirSync(migrationsDir).map((file) => file.replace(/\.sql$/, ''));

  const emptyDatabase = async (): Promise<string> => {
    const client = new pg.Client({ connectionString: workspace().endpoints.databaseUrl });
    await client.connect();
    await client.query('drop schema public cascade; create schema public');
    await client.end();
    return workspace().endpoints.databaseUrl;
  };

  it('applies every file once when two processes start together', async () => {
    const url = await emptyDatabase();
    const applied = await Promise.all([migrate(url, options), migrate(url, options), migrate(url, options)]);
    expect(applied.flat().sort()).to.deep.equal(files.sort());
    expect(applied.map(({ length }) => length).sort()).to.deep.equal([0, 0, files.length]);
  });

  it('changes nothing the second time', async () => {
    expect(await migrate(workspace().endpoints.databaseUrl, options)).to.deep.equal([]);
  });

  it('says what it would do and does not do it', async () => {
    const url = await emptyDatabase();
    expect(await migrate(url, { ...options, dryRun: true })).to.deep.equal(files);
    expect(await migrate(url, options)).to.deep.equal(files);
  });
});
