import { expect } from 'chai';
import pg from 'pg';
import { appendEvents } from '../../../src/journal/append-events.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { createCursorSource } from '../../../src/relay/cursor-source.ts';
import { acquireLease, type Lease } from '../../../src/relay/lease.ts';
import type { OutboxPage } from '../../../src/relay/outbox-source.ts';
import { viewOf } from '../../support/journal.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';

const backlog = 20_000;
/** Far fewer than the backlog, and more than the few rows of a page and the catalogues that a plan looks up. */
const fewRows = 500;

describe('what a page of the outbox costs', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();
  let db: Database;
  let lease: Lease;
  before(async () => {
    db = openTestDatabase(workspace(), 1);
    const taken = await acquireLease(db, { name: 'spec-relay', holder: 'spec', holdMs: 3_600_000 });
    if (!taken) throw new Error('Nobody else wants the lease');
    lease = taken;
  });

  const columns = `event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version, partition_key,
                   request_id, schema_fingerprint, payload, content_hash, occurred_at`;
  const load = (name: string): Promise<unknown> =>
    db.execute(
      {
        name: 'spec-load',
        text: `insert into outbox (${columns})
               select gen_random_uuid(), 't', 's', 'T', $1 || n, 1, 'k' || n, 'r', sha256('x'), sha256('p'), sha256('x'), now()
               from generate_series(1, ${backlog}) n`,
      },
      [name],
    );
  const flush = { name: 'spec-flush', text: 'select pg_stat_force_next_flush()' };
  /** Index entries and rows of the outbox that anybody has looked at. Each of the two connections tells its own. */
  const looks = async (): Promise<number> => {
    await db.execute(flush);
    await db.readBinary(flush, [], { bytesMax: 1000 });
    const [row] = await db.execute<{ looks: number }>({
      name: 'spec-looks',
      text: `select seq_tup_read + idx_tup_fetch + (select sum(idx_tup_read) from pg_stat_user_indexes
                                                    where relname = 'outbox')::bigint as looks
             from pg_stat_user_tables where relname = 'outbox'`,
    });
    return row?.looks ?? Number.NaN;
  };
  const namesOf = (page: OutboxPage | undefined): readonly string[] =>
    page?.rows.map(({ aggregateId }) => aggregateId) ?? [];

  it('does not grow with what was written while one of its transactions was open', async () => {
    const source = createCursorSource(db);
    const slow = new pg.Client({ connectionString: workspace().endpoints.databaseUrl });
    await slow.connect();
    await slow.query(
      `begin; insert into outbox (${columns})
       values (gen_random_uuid(), 't', 's', 'T', 'slow', 1, 'k', 'r', sha256('x'), 'p', sha256('x'), now())`,
    );
    await load('meanwhile-');
    const page = await source.nextPage(backlog, lease);
    expect(page?.rows.length).to.equal(backlog);
    if (page) await source.settle(page, backlog, [], lease);

    await slow.query('commit');
    await slow.end();
    await appendEvents(db, [viewOf('new-1', 1), viewOf('new-2', 1)]);
    const before = await looks();
    const late = await source.nextPage(2, lease);
    expect(namesOf(late)).to.deep.equal(['slow', 'new-1']);
    expect((await looks()) - before).to.be.lessThan(fewRows);
    if (late) await source.settle(late, 2, [], lease);
    // Also for the next relay, which goes on in the middle of the delta.
    const next = createCursorSource(db);
    const rest = await next.nextPage(2, lease);
    expect(namesOf(rest)).to.deep.equal(['new-2']);
    if (rest) await next.settle(rest, 1, [], lease);
    expect((await looks()) - before).to.be.lessThan(fewRows);
  });

  it('does not grow with the backlog when it is read again, as after every send that failed', async () => {
    const source = createCursorSource(db);
    await load('backlog-');
    const first = await source.nextPage(10, lease);
    const before = await looks();
    for (let attempt = 0; attempt < 10; attempt++) {
      source.forget();
      expect(namesOf(await source.nextPage(10, lease))).to.deep.equal(namesOf(first));
    }
    expect((await looks()) - before).to.be.lessThan(fewRows);
  });
});
