import { expect } from 'chai';
import { z } from 'zod';
import type { Database } from '../../../src/postgres/database.ts';
import { sql } from '../../../src/postgres/sql.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';

const insert = { name: 'spec-insert', text: 'insert into product_statistic (product_id) values ($1)' };
const Row = z.strictObject({ productId: z.string() });
const select = (id: string) =>
  sql.type(Row)`select product_id as "productId" from product_statistic where product_id = ${id}`;

describe('database', () => {
  const workspace = useWorkspace();
  let db: Database;
  before(() => {
    db = openTestDatabase(workspace(), 2);
  });

  const found = (id: string) => db.checked((slonik) => slonik.maybeOne(select(id)));

  it('lets pg and slonik speak in one transaction', async () => {
    await db.transaction(async (tx) => {
      await tx.execute(insert, ['both']);
      expect(await tx.checked((slonik) => slonik.maybeOne(select('both')))).to.deep.equal({
        productId: 'both',
      });
      expect(await found('both'), 'seen from outside').to.equal(null);
    });
    expect(await found('both')).to.deep.equal({ productId: 'both' });
  });

  it('rolls back what both have written when the routine fails', async () => {
    const failure = await db
      .transaction(async (tx) => {
        await tx.execute(insert, ['gone-pg']);
        await tx.checked((slonik) =>
          slonik.query(sql.unsafe`insert into product_statistic (product_id) values (${'gone-slonik'})`),
        );
        throw new Error('no');
      })
      .catch((error: Error) => error.message);
    expect(failure).to.equal('no');
    expect([await found('gone-pg'), await found('gone-slonik')]).to.deep.equal([null, null]);
  });

  it('gives its connections back, also after failures', async () => {
    for (let turn = 0; turn < 10; turn++) {
      await db.transaction((tx) => tx.execute({ name: 'spec-broken', text: 'select 1 / 0' })).catch(() => {});
      await db.checked((slonik) => slonik.any(sql.unsafe`select 1 / 0`)).catch(() => {});
    }
    expect(await found('nothing')).to.equal(null);
  });

  it('survives a connection that breaks in the middle of a transaction, between two statements', async () => {
    const broken = db.transaction(async (tx) => {
      await tx.execute(insert, ['cut']);
      const [own] = await tx.execute<{ pid: number }>({
        name: 'spec-pid',
        text: 'select pg_backend_pid() as pid',
      });
      await db.execute({ name: 'spec-cut', text: 'select pg_terminate_backend($1)' }, [own?.pid]);
      const alive = { name: 'spec-alive', text: 'select pid from pg_stat_activity where pid = $1' };
      await eventually(async () => expect(await db.execute(alive, [own?.pid])).to.deep.equal([]));
      await tx.execute(insert, ['too late']);
    });
    expect(await broken.catch((error: Error) => error)).to.be.instanceOf(Error);
    expect([await found('cut'), await found('too late')]).to.deep.equal([null, null]);
  });

  it('does not pass on a row that is not what its schema says', async () => {
    const wrong = db.checked((slonik) =>
      slonik.any(sql.type(z.strictObject({ n: z.string() }))`select 1::integer as n`),
    );
    expect(await wrong.catch((error: Error) => error.message)).to.match(/do not conform/);
  });

  it('reads 64-bit counts as numbers and refuses what a number cannot hold', async () => {
    const read = (text: string) =>
      db.execute<{ n: number }>({ name: `spec-${text}`, text: `select ${text}::bigint as n` });
    expect(await read('9007199254740991')).to.deep.equal([{ n: 9_007_199_254_740_991 }]);
    expect(await read('9007199254740993').catch((error: Error) => error.message)).to.match(/safe integer/);
  });

  it('keeps the journal append-only', async () => {
    for (const text of ['update outbox set source = $1', 'delete from outbox where source = $1']) {
      const refused = await db
        .execute({ name: text.slice(0, 6), text }, ['x'])
        .catch((error: Error) => error.message);
      expect(refused).to.match(/append-only/);
    }
  });
});
