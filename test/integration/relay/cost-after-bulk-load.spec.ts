import { expect } from 'chai';
import { appendEvents } from '../../../src/journal/append-events.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { findOutboxDelta } from '../../../src/relay/open-outbox-delta.ts';
import { readShardFigures } from '../../../src/relay/shard-figures.ts';
import { viewOf } from '../../support/journal.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { passEverything } from '../../support/outbox-admin.ts';
import { useWorkspace } from '../../support/stack.ts';

/** Few transactions with many rows each make the planner think that any transaction is a large part of the table. */
describe('a journal that was loaded by few transactions', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();
  let db: Database;
  before(async () => {
    db = openTestDatabase(workspace(), 1);
    for (let load = 0; load < 3; load++) {
      await db.execute(
        {
          name: 'spec-bulk-load',
          text: `
            insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version,
                                partition_key, request_id, schema_fingerprint, payload, content_hash, occurred_at)
            select gen_random_uuid(), 't', 's', 'T', $1 || n, 1, 'k' || n, 'r', sha256('x'), sha256('p'), sha256('x'), now()
            from generate_series(1, 10000) n`,
        },
        [`load-${load}-`],
      );
    }
    await passEverything(db);
    await db.execute({ name: 'spec-analyze', text: 'analyze outbox' });
  });

  const walksThroughTable = async (): Promise<number> => {
    await db.execute({ name: 'spec-flush', text: 'select pg_stat_force_next_flush()' });
    const [row] = await db.execute<{ walks: number }>({
      name: 'spec-walks',
      text: `select seq_scan as walks from pg_stat_user_tables where relname = 'outbox'`,
    });
    return row?.walks ?? Number.NaN;
  };
  const cursorNow = async () => (await readShardFigures(db))[0]?.position ?? expect.fail('no position');

  it('is looked at for what is new by index alone, whether there is something or not', async () => {
    const { from } = await cursorNow();
    const before = await walksThroughTable();
    expect(await findOutboxDelta(db, from)).to.equal(undefined);
    await appendEvents(db, [viewOf('new', 1)]);
    const found = await findOutboxDelta(db, from);
    expect(found?.bounds).to.deep.equal({ firstId: 30_001, finalId: 30_001 });
    expect((await walksThroughTable()) - before).to.equal(0);
  });

  it('is looked at for what waits by index alone', async () => {
    await passEverything(db);
    const before = await walksThroughTable();
    expect((await readShardFigures(db))[0]).to.include({ pending: 0 });
    await appendEvents(db, [viewOf('new', 2)]);
    expect((await readShardFigures(db))[0]).to.include({ pending: 1 });
    expect((await walksThroughTable()) - before).to.equal(0);
  });

  it('would be found out if it were walked through', async () => {
    const before = await walksThroughTable();
    await db.execute({ name: 'spec-walk', text: `select count(*) from outbox where source <> 's'` });
    expect((await walksThroughTable()) - before).to.equal(1);
  });
});
