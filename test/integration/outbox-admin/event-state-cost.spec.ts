import { expect } from 'chai';
import type { Database } from '../../../src/postgres/database.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { passEverything } from '../../support/outbox-admin.ts';
import { useWorkspace } from '../../support/stack.ts';

const rowsInJournal = 20_000;

/** What looking for one event may cost, whatever the size of the journal. */
const blocksMax = 300;

describe('the cost of looking for one event', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();
  let db: Database;
  before(async () => {
    db = openTestDatabase(workspace());
    await db.execute(
      {
        name: 'spec-fill-journal',
        // Event ids that ascend as those of version 7 do.
        text: `
          insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version,
                              partition_key, request_id, schema_fingerprint, payload, content_hash, occurred_at)
          select lpad(to_hex(n), 32, '0')::uuid, 't', 's', 'Filler', n::text, 1, 'k', 'r', '\\x00',
                 convert_to(repeat('x', 400), 'UTF8'), decode(repeat('00', 32), 'hex'), now()
          from generate_series(1, $1::integer) n`,
      },
      [rowsInJournal],
    );
    await db.execute({ name: 'spec-summarize', text: `select brin_summarize_new_values('outbox_event_id')` });
    await db.execute({ name: 'spec-analyze', text: 'analyze outbox' });
    await passEverything(db);
  });

  /** Blocks that a query has read, from memory or from disk. */
  const blocksOf = async (query: string): Promise<number> => {
    const [row] = await db.execute<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>({
      name: '',
      text: `explain (analyze, buffers, format json) ${query}`,
    });
    const plan = row?.['QUERY PLAN'][0].Plan ?? {};
    return (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0);
  };

  it('does not grow with the journal, neither for its state nor by its event id', async () => {
    const whole = await blocksOf('select count(payload) from outbox');
    expect(whole, 'the journal is large enough to tell').to.be.greaterThan(3 * blocksMax);
    expect(await blocksOf('select state from outbox_event_state where id = 9000')).to.be.lessThan(30);
    const id = `'${(9000).toString(16).padStart(32, '0')}'`;
    expect(await blocksOf(`select id from outbox where event_id = ${id}`)).to.be.lessThan(blocksMax);
  });
});
