import { expect } from 'chai';
import { stayInTransaction } from '../../../src/postgres/stay-in-transaction.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';

describe('a transaction that is open for its lock only', () => {
  const workspace = useWorkspace();

  it('keeps nothing from being cleared away', async () => {
    const db = openTestDatabase(workspace(), 2);
    const keeps = async (pid: number): Promise<boolean | undefined> => {
      const [row] = await db.execute<{ keeps: boolean }>(
        {
          name: 'spec-keeps',
          text: 'select backend_xmin is not null as keeps from pg_stat_activity where pid = $1',
        },
        [pid],
      );
      return row?.keeps;
    };
    await db.transaction(async (tx) => {
      const [own] = await tx.execute<{ pid: number }>({
        name: 'spec-lock',
        text: 'select pg_backend_pid() as pid, pg_advisory_xact_lock(42)',
      });
      expect(await keeps(own?.pid ?? 0), 'after a query').to.equal(true);
      await stayInTransaction(tx);
      expect(await keeps(own?.pid ?? 0)).to.equal(false);
    });
  });
});
