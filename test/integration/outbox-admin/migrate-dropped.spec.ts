import { expect } from 'chai';
import { migrate } from '../../../src/postgres/migrate.ts';
import { migrateUpTo } from '../../support/migrate-up-to.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

describe('events that were dropped before the relay remembered it', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();

  it('are found in the audit by the migration, each once', async () => {
    const { databaseUrl } = workspace().endpoints;
    await migrateUpTo(databaseUrl, '0018_dropped_events.sql');
    const db = openTestDatabase(workspace());
    await db.execute({
      name: 'spec-audited-drops',
      text: `
        insert into operator_audit (who, action, target)
        values ('ann', 'outbox.drop', '{"outboxId": 7, "eventType": "t"}'), ('ann', 'outbox.drop', '{"outboxId": 7}'),
               ('ann', 'outbox.drop', '{"outboxId": 12}'), ('ann', 'outbox.retry', '{"outboxIds": [8]}')`,
    });
    await migrate(databaseUrl, { log: silentLog(), connectTimeoutMs: 30_000 });
    const dropped = { name: 'spec-dropped', text: 'select outbox_id as id from outbox_dropped order by 1' };
    expect(await db.execute(dropped)).to.deep.equal([{ id: 7 }, { id: 12 }]);
  });
});
