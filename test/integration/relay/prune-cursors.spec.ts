import { expect } from 'chai';
import type { Database } from '../../../src/postgres/database.ts';
import { pruneCursors } from '../../../src/relay/prune-cursors.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';

const day_s = 24 * 60 * 60;
const retention = { cursorRetentionMs: 7 * day_s * 1000, cursorDetailMs: 60 * 60 * 1000 };

describe('history of the relay’s cursor', () => {
  const workspace = useWorkspace();
  let db: Database;
  before(() => {
    db = openTestDatabase(workspace(), 2);
  });
  beforeEach(() => db.execute({ name: 'spec-clear', text: 'delete from outbox_cursor' }));

  /** Rows of a shard, so many seconds before the last full minute, in this order. */
  const store = async (ages_s: readonly number[], shard = 1): Promise<void> => {
    await db.execute(
      {
        name: 'spec-store',
        text: `
          insert into outbox_cursor (from_snapshot, to_snapshot, last_id, lease_token, system_identifier, shards, shard,
                                     created_at)
          select '1:1:', '1:1:', age, 1, 1, 2, $2, date_trunc('minute', clock_timestamp()) - age * interval '1 second'
          from unnest($1::integer[]) with ordinality as given(age, place) order by place`,
      },
      [ages_s, shard],
    );
  };
  const kept = async (shard = 1): Promise<readonly number[]> => {
    const rows = await db.execute<{ age: number }>(
      { name: 'spec-kept', text: 'select last_id as age from outbox_cursor where shard = $1 order by id' },
      [shard],
    );
    return rows.map(({ age }) => age);
  };

  it('goes after seven days', async () => {
    await store([9 * day_s, 8 * day_s, 6 * day_s, 10]);
    expect(await pruneCursors(db, retention)).to.equal(2);
    expect(await kept()).to.deep.equal([6 * day_s, 10]);
  });

  it('keeps the newest row of every shard however old it is: that is the position', async () => {
    await store([30 * day_s, 20 * day_s]);
    await store([40 * day_s], 2);
    await pruneCursors(db, retention);
    expect([await kept(1), await kept(2)]).to.deep.equal([[20 * day_s], [40 * day_s]]);
  });

  it('is whole for an hour, and tells of each minute before that', async () => {
    const old_s = 2 * 60 * 60;
    await store([old_s + 59, old_s + 30, old_s + 1, old_s - 1, old_s - 59, 30, 20, 10]);
    await pruneCursors(db, retention);
    expect(await kept()).to.deep.equal([old_s + 1, old_s - 59, 30, 20, 10]);
  });

  it('is removed in small steps', async () => {
    await store([20, 19, 18, 17, 1].map((days) => days * day_s));
    expect(await pruneCursors(db, retention, 3)).to.equal(3);
    expect(await pruneCursors(db, retention, 3)).to.equal(1);
    expect(await pruneCursors(db, retention, 3)).to.equal(0);
    expect(await kept()).to.deep.equal([day_s]);
  });
});
