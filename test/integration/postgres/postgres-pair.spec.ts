import { expect } from 'chai';
import pg from 'pg';
import { type PostgresPair, startPostgresPair } from '../../support/postgres-pair.ts';

describe('A pair of PostgreSQL servers for specs', function () {
  this.timeout(120_000);
  let pair: PostgresPair;
  before(async () => {
    pair = await startPostgresPair();
  });
  after(() => pair.close());

  const run = async (text: string): Promise<readonly Record<string, unknown>[]> => {
    const client = new pg.Client({ connectionString: pair.databaseUrl });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return (await client.query(text)).rows;
    } finally {
      await client.end();
    }
  };
  const rows = async () => (await run('select n from spec order by n')).map(({ n }) => n);
  const timeline = async () =>
    (await run('select left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) as timeline'))[0]?.timeline;

  it('is promoted again and again without what was not replicated, behind the same address', async () => {
    await run('create table spec (n integer)');
    for (let round = 1; round <= 3; round++) {
      await run(`insert into spec values (${round})`);
      await pair.catchUp();
      pair.holdReplication();
      await run(`insert into spec values (-${round})`);
      await pair.promote();
      expect(await rows()).to.deep.equal(Array.from({ length: round }, (_, n) => n + 1));
      expect(await timeline()).to.equal(`0000000${round + 1}`);
      await pair.addStandby();
    }
  });

  it('hands over what was held when replication is let go', async () => {
    pair.holdReplication();
    await run('insert into spec values (10)');
    pair.letReplicationGo();
    await pair.catchUp();
    await pair.promote();
    expect(await rows()).to.deep.equal([1, 2, 3, 10]);
  });
});
