import { expect } from 'chai';
import type { Database } from '../../../src/postgres/database.ts';
import { openDeadLetterDesk, parkedKeys, parkKey, writeLetters } from '../../support/dead-letters.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { auditRows } from '../../support/outbox-admin.ts';
import { type Client, startTestApp } from '../../support/running-app.ts';
import { useWorkspace } from '../../support/stack.ts';
import { readTopic } from '../../support/topic-reader.ts';

describe('dead letters over HTTP, on real servers', function () {
  this.timeout(120_000);
  const workspace = useWorkspace();
  let db: Database;
  let client: Client;
  before(async function () {
    this.timeout(120_000);
    db = openTestDatabase(workspace());
    await openDeadLetterDesk(workspace(), db);
    ({ client } = await startTestApp(workspace(), 'api'));
  });

  it('shows, replays and drops, and the audit names the caller', async () => {
    const [first, second, parked] = await writeLetters(workspace(), [
      { key: 'a', offset: 1, partition: 1 },
      { key: 'b', offset: 2 },
      { key: 'stuck', offset: 3 },
    ]);
    await parkKey(workspace(), db, { key: 'stuck', records: 1 });
    const list = await client.get('/admin/dead-letters?projection=product-statistic');
    expect(list.body.letters).to.have.length(3);
    const stats = await client.get('/admin/dead-letters/stats');
    expect(stats.body).to.deep.include({ letters: 3 });
    const shown = await client.get(`/admin/dead-letters/${first}`);
    expect(shown.body).to.include({ id: first, state: 'open', isParked: false });
    expect(shown.body.value).to.include({ hex: Buffer.from('not avro').toString('hex') });

    const refused = await client.post('/admin/dead-letters/replay', { ids: [first, parked] });
    expect([refused.status, refused.body.type]).to.deep.equal([
      409,
      'urn:millrace:problem:dead-letters-refused',
    ]);
    const replayed = await client.post('/admin/dead-letters/replay', { ids: [first] });
    expect(replayed.body, JSON.stringify(replayed.body)).to.include({ outcome: 'replayed' });
    const records = await readTopic(workspace().endpoints.kafkaBrokers, workspace().unique('like-events'));
    expect(records.map(({ key, partition }) => [key, partition])).to.deep.equal([['a', 1]]);
    const dropped = await client.post('/admin/dead-letters/drop', { ids: [second, parked] });
    expect(dropped.body).to.include({ outcome: 'dropped', releasedKeys: 1 });
    expect(await parkedKeys(db)).to.deep.equal([]);
    expect((await client.get('/admin/dead-letters')).body.letters).to.deep.equal([]);
    expect((await client.get('/admin/dead-letters?all=true')).body.letters).to.have.length(3);

    const audit = await auditRows(db);
    expect(audit.map(({ action }) => action)).to.deep.equal(['dead-letters.replay', 'dead-letters.drop']);
    for (const { who } of audit) expect(who).to.match(/^operator:/);
  });
});
