import { expect } from 'chai';
import type { Database } from '../../../src/postgres/database.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { appendViews, auditRows, park, passEverything } from '../../support/outbox-admin.ts';
import { type Client, startTestApp } from '../../support/running-app.ts';
import { useWorkspace } from '../../support/stack.ts';

describe('the outbox over HTTP, on a real database', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();
  let db: Database;
  let client: Client;
  before(async () => {
    db = openTestDatabase(workspace());
    ({ client } = await startTestApp(workspace(), 'api'));
  });

  it('shows, drops and retries, and the audit names the caller', async () => {
    const rows = await appendViews(db, 'stuck', { count: 3 });
    const [first] = rows;
    if (!first) throw new Error('no row');
    await park(db, rows, { dead: true });
    await passEverything(db);

    const dead = await client.get('/admin/outbox/dead?aggregate=ProductView/stuck');
    expect(dead.body.events).to.have.nested.property('[0].eventId', first.eventId);
    const shown = await client.get(`/admin/outbox/${first.eventId}`);
    expect(shown.body).to.include({ id: first.id, state: 'dead', isGenuine: true });
    expect(shown.body.envelope).to.deep.include({ data: { productId: 'stuck', userId: null } });

    const id = String(first.id);
    const dropped = await client.post('/admin/outbox/drop', { id, dryRun: false });
    expect([dropped.status, dropped.body.outcome]).to.deep.equal([200, 'dropped']);
    const retried = await client.post('/admin/outbox/retry', { all: true });
    expect(retried.body).to.deep.equal({ dryRun: false, events: 2, aggregates: 1, revived: 0 });
    expect((await client.get('/admin/outbox/failed')).body.events).to.have.length(2);
    const audit = await auditRows(db);
    expect(audit.map(({ action }) => action)).to.deep.equal(['outbox.drop', 'outbox.retry']);
    for (const { who } of audit) expect(who).to.match(/^operator:/);
  });
});
